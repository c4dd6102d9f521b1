"""IPython runs this at its start in the course's environment: before `%load_ext course_lib`, magics say what to do.

A restarted kernel would only say that it knows no such magic.
"""


def _register() -> None:
    from IPython.core.error import UsageError
    from IPython.core.interactiveshell import InteractiveShell

    def not_loaded(line: str, cell: str | None = None) -> None:
        raise UsageError(
            "This kernel is new and knows nothing yet. Run the cells above this one first; the first of them is "
            "%load_ext course_lib. (In JupyterLab: menu Run, Run All Above Selected Cell.)"
        )

    manager = InteractiveShell.instance().magics_manager
    for name in ("ranks", "task"):
        manager.register_function(not_loaded, "line_cell", name)


_register()
del _register
