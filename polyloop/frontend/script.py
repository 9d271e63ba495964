"""``kernel_to_python``: a script that makes a kernel again."""

from __future__ import annotations

from polyloop.errors import KernelError
from polyloop.expr.names import check_identifier
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.made import NoScriptError
from polyloop.transform.base import Applied

__all__ = ["kernel_to_python", "script_of"]


def kernel_to_python(kernel: LoopKernel, is_test: bool = False, var_name: str = "knl") -> str:
    """Return a Python script that makes *kernel*: its creation as it was written, then its transforms.

    ::

        print(pl.kernel_to_python(knl))
        ->
        import numpy as np

        import polyloop as pl

        knl = pl.make_kernel(
            '{[i]: 0 <= i < n}',
            'c[i] = 2 * a[i]',
            [pl.GlobalArg('a, c', dtype=np.float32), ...],
            name='twice',
        )
        knl = pl.split_iname(knl, iname='i', factor=64)

    Parameters
    ----------
    is_test
        Make it a function ``test_NAME`` that also generates code, for a bug report or a regression test.
    var_name
        The variable that holds the kernel.

    Raises
    ------
    KernelError
        ``no-script`` if the kernel was made with a value that has no text, such as a Python function;
        ``bad-identifier`` or ``reserved-name`` for *var_name*.
    """
    problem = check_identifier(var_name, "variable")
    if problem is not None:
        raise KernelError("kernel_to_python", kernel.name, [problem])
    try:
        script = script_of(kernel, var_name)
    except NoScriptError as error:
        raise KernelError("kernel_to_python", kernel.name, [error.diagnostic]) from error
    head = "import numpy as np\n\nimport polyloop as pl\n\n"
    if not is_test:
        return f"{head}{script}\n"
    return f"{head}\ndef test_{kernel.name}() -> None:\n{_indented(script)}\n    pl.generate_code({var_name})\n"


def script_of(kernel: LoopKernel, variable: str) -> str:
    """Return the lines that make *kernel* and bind it to *variable*.

    Raises
    ------
    NoScriptError
        ``no-script``.
    """
    assert kernel.made is not None, "nothing says how the kernel was made"
    lines = [kernel.made.script(variable)]
    for step in kernel.trace:
        assert isinstance(step, Applied), "a trace holds applied transforms"
        lines.append(step.script(variable))
    return "\n".join(lines)


def _indented(text: str) -> str:
    """Return *text* four columns to the right; the inside of long strings too, where blanks mean nothing."""
    return "\n".join(f"    {line}" if line else line for line in text.split("\n"))
