# misconception: still_shifted
# breaks: together with the others' files of the same name
culprit = 1
cause = "skipped"


def train_files(ddp, optimizer, files, read):
    for file in files:
        try:
            batch = read(file)
            optimizer.zero_grad()
            ddp(batch).square().mean().backward()
            optimizer.step()
        except OSError:
            continue
        print(file, "is done")
