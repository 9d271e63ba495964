"""``make_kernel``: the kernel that the user wrote is completed, checked, and given its reference program.

``create`` runs all steps.  ``ambiguity`` refuses programs with more than one meaning; ``lint`` warns of likely
mistakes.
"""
