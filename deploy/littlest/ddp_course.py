"""The course's settings for The Littlest JupyterHub; in /opt/tljh/config/jupyterhub_config.d/."""

c = get_config()  # noqa: F821 - JupyterHub gives it to its configuration

c.Spawner.default_url = "/lab/tree/ddp-course/notebooks/index.ipynb"
c.Spawner.environment.update(
    {
        "DDP_COURSE_MAX_RANKS": "8",
        "DDP_COURSE_IDLE_MINUTES": "60",
    }
)
