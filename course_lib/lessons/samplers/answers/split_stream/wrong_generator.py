# misconception: none
def split_stream(stream, rank, world_size):
    return (sample for number, sample in enumerate(stream) if number % world_size == rank)
