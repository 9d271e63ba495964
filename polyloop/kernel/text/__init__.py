"""The user's text as data: logical lines, statements, options, domains, match expressions.  No kernel is known here."""
