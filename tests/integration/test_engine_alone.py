"""The engine in a notebook that has nothing of the course."""

from tests.support.ranks_and_kernels import Kernel

LOADED = "import sys; sorted(name for name in sys.modules if name.startswith('course_lib'))"


def test_a_notebook_has_ranks_without_the_course(tmp_path):
    kernel = Kernel(tmp_path, extension="realranks")
    try:
        assert "ranks 0,1" in kernel.run("%%ranks 2 --no-init\n'here'").text
        hang = kernel.run(
            "%%ranks 2 --expect hang\nimport torch.distributed as dist\nif dist.get_rank(): dist.barrier()"
        )
        assert hang.status == "ok", hang.text
        assert "Only rank 1 comes to barrier()" in hang.text
        refused = kernel.run("%%ranks --predicted\n1")
        assert "no question is open" in refused.error
        assert "backend for 4 ranks" in kernel.run("machine()").value
        assert kernel.run(LOADED).value == "[]"
    finally:
        kernel.close()
