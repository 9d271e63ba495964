"""``make_kernel``: the kernel that the user wrote is completed, checked, and given its reference program.

``create`` goes through all steps.  ``ambiguity`` refuses what a text leaves open; ``lint`` warns of what was hardly
meant.
"""
