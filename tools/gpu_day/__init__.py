"""`make test-gpu`: everything that only a machine with GPUs can tell, in five parts, written down in docs/gpu.md.

`steps` says what there is to be found out, `stories` how, `running` runs each step in a process of its own and judges
it, `page` writes the page, and `report` a text to paste, which deploy/kaggle/kaggle_gpus.ipynb shows. Nothing here is
collected by pytest; `tests/unit/test_gpu_day.py` holds that it works.
"""
