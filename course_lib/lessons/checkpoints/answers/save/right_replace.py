import os
#~ all_write_slow_disk -0 |import time
#~ copied -0 |import shutil
#~ newest_file -0 |from pathlib import Path

import torch
import torch.distributed as dist


def bare(model):
    return model.module if hasattr(model, "module") else model


#~ newest_file -4
def save(model, step, path):
#~ barrier_before -0 |    dist.barrier()
    if dist.get_rank() == 0:
#~ clears_the_folder -0 |        for name in os.listdir(os.path.dirname(path)):
#~ |            if not path.endswith(name):
#~ |                os.remove(os.path.join(os.path.dirname(path), name))  # half a file of an earlier kill
        new = path + ".new"
#~ all_write -2 |    if True:
#~ |        new = f"{path}.{dist.get_rank()}"
        with open(new, "wb") as file:
            torch.save({"step": step, "model": bare(model).state_dict()}, file)
#~ another_step -1 |            torch.save({"step": step + 1, "model": bare(model).state_dict()}, file)
#~ one_left_out -1 |            torch.save({"step": step, "model": dict(list(bare(model).state_dict().items())[1:])}, file)
#~ not_strict -1 |            torch.save({"step": step, "model": model.state_dict()}, file)
#~ prefix -1 |            torch.save({"step": step, "model": model.state_dict()}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
#~ all_write_one_new_file -7 |    torch.save({"step": step, "model": bare(model).state_dict()}, path + ".new")
#~ |    dist.barrier()
#~ |    os.replace(path + ".new", path)
#~ all_write_slow_disk -7 |    new = f"{path}.{dist.get_rank()}"
#~ |    torch.save({"step": step, "model": bare(model).state_dict()}, new)
#~ |    os.replace(new, path)
#~ copied -1 |        shutil.copyfile(new, path)
#~ in_place -6 |        torch.save({"step": step, "model": bare(model).state_dict()}, path)
#~ newest_file -6 |        file = Path(path).parent / f"{step}.pt"
#~ |        torch.save({"step": step, "model": model.module.state_dict()}, f"{file}.new")
#~ |        os.replace(f"{file}.new", file)
#~ removed -1 |        if os.path.exists(path):
#~ |            os.remove(path)
#~ |        os.rename(new, path)
#~ two_files -6 |        for thing, name in ((step, path + ".step"), (bare(model).state_dict(), path)):
#~ |            torch.save(thing, name + ".new")
#~ |            os.replace(name + ".new", name)
    dist.barrier()
#~ barrier_before -1


def load(model, path):
#~ all_write_slow_disk -0 |    if dist.get_rank() == 1:
#~ |        time.sleep(0.2)  # the others have gone on long since
    if not os.path.exists(path):
#~ newest_file -1 |    files = [file for file in Path(path).parent.glob("*.pt") if file.stem.isdigit()]
#~ |    if not files:
        return None
#~ zero_for_nothing -1 |        return 0
    state = torch.load(path, map_location="cpu", weights_only=True)
#~ runs_files -1 |    state = torch.load(path, map_location="cpu", weights_only=False)
    bare(model).load_state_dict(state["model"])
#~ always_wrapped -1 |    model.module.load_state_dict(state["model"])
#~ rank_0_loads -1 |    if dist.get_rank() == 0:
#~ |        bare(model).load_state_dict(state["model"])
#~ newest_file -2 |    state = torch.load(max(files, key=lambda file: int(file.stem)))
#~ |    getattr(model, "module", model).load_state_dict(state["model"])
#~ not_strict -1 |    model.load_state_dict(state["model"], strict=False)
#~ prefix -1 |    model.load_state_dict(state["model"])
    return state["step"]
#~ no_step -1
#~ two_files -2 |    bare(model).load_state_dict(state)
#~ |    return torch.load(path + ".step")

#~ all_write: misconception: all_write
#~ all_write: breaks: One rank writes.
#~ all_write_one_new_file: misconception: all_write
#~ all_write_slow_disk: misconception: all_write
#~ all_write_slow_disk: breaks: One rank writes.
#~ always_wrapped: misconception: none
#~ another_step: misconception: none
#~ one_left_out: misconception: none
#~ barrier_before: misconception: leaves_early
#~ barrier_before: breaks: When save returns on a rank, load finds that step and these weights there, with or without a wrapper.
#~ clears_the_folder: misconception: none
#~ clears_the_folder: breaks: Other files in the same folder are left alone.
#~ copied: misconception: copied_over
#~ copied: breaks: Whenever save is killed, load finds the last checkpoint or the new one, entire.
#~ in_place: misconception: in_place
#~ in_place: breaks: Whenever save is killed, load finds the last checkpoint or the new one, entire.
#~ newest_file: misconception: none
#~ newest_file: breaks: When save returns on a rank, load finds that step and these weights there, with or without a wrapper.
#~ no_step: misconception: none
#~ not_strict: misconception: not_strict
#~ not_strict: breaks: When save returns on a rank, load finds that step and these weights there, with or without a wrapper.
#~ prefix: misconception: prefix_kept
#~ prefix: breaks: When save returns on a rank, load finds that step and these weights there, with or without a wrapper.
#~ rank_0_loads: misconception: none
#~ removed: misconception: removed_first
#~ removed: breaks: Whenever save is killed, load finds the last checkpoint or the new one, entire.
#~ runs_files: misconception: runs_files
#~ runs_files: breaks: load runs nothing that is in the file.
#~ two_files: misconception: two_files
#~ two_files: breaks: Whenever save is killed, load finds the last checkpoint or the new one, entire.
#~ zero_for_nothing: misconception: none
#~ zero_for_nothing: breaks: load returns None when nothing has been saved.
