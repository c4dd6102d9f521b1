from torch.utils.data import IterableDataset, get_worker_info
#~ nothing_split -1 |from torch.utils.data import IterableDataset
#~ workers -1 |from torch.utils.data import IterableDataset


class Share(IterableDataset):
    def __init__(self, stream, rank, world_size):
        self.stream, self.rank, self.world_size = stream, rank, world_size
#~ used_up -2 |    def __init__(self, rounds, rank):
#~ |        self.rounds, self.rank = rounds, rank

    def __iter__(self):
        info = get_worker_info()
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
#~ four_workers -1 |        worker, workers = (info.id, 4) if info else (0, 1)
#~ only_step -1 |        workers = info.num_workers if info else 1
#~ workers_expected -1 |        worker, workers = info.id, info.num_workers
        for number, samples in enumerate(zip(*[iter(self.stream)] * self.world_size)):
            if number % workers == worker:
#~ only_step -1 |            if number % workers == 0:
#~ used_up -3 |        for number, samples in enumerate(self.rounds):
#~ |            if info is None or number % info.num_workers == info.id:
                yield samples[self.rank]
#~ length -3 |        full = len(self.stream) // self.world_size * self.world_size
#~ |        for number, sample in enumerate(self.stream):
#~ |            if number < full and number % (self.world_size * workers) == self.rank + self.world_size * worker:
#~ |                yield sample
#~ memory -3 |        samples = list(self.stream)
#~ |        full = len(samples) // self.world_size * self.world_size
#~ |        yield from samples[self.rank + self.world_size * worker : full : self.world_size * workers]
#~ nothing_split -5 |        yield from self.stream
#~ ranks -4 |        for number, sample in enumerate(self.stream):
#~ |            if info is None or number % info.num_workers == info.id:
#~ |                yield sample
#~ readers_collide -3 |        for number, sample in enumerate(self.stream):
#~ |            if number % (self.world_size * workers) == self.rank + worker:
#~ |                yield sample
#~ rest -3 |        reader, readers = self.rank * workers + worker, self.world_size * workers
#~ |        for number, sample in enumerate(self.stream):
#~ |            if number % readers == reader:
#~ |                yield sample
#~ rounds_of_readers -3 |        for samples in zip(*[iter(self.stream)] * (self.world_size * workers)):
#~ |            yield samples[self.rank * workers + worker]
#~ workers -5 |        for number, sample in enumerate(self.stream):
#~ |            if number % self.world_size == self.rank:
#~ |                yield sample


def split_stream(stream, rank, world_size):
    return Share(stream, rank, world_size)
#~ used_up -1 |    return Share(zip(*[iter(stream)] * world_size), rank)

#~ four_workers: misconception: none
#~ length: misconception: like_a_list
#~ memory: misconception: all_in_memory
#~ memory: breaks: Samples come out while the stream is read.
#~ nothing_split: misconception: nothing_split
#~ nothing_split: breaks: No sample is read twice, by whichever rank and worker.
#~ only_step: misconception: readers_collide
#~ only_step: breaks: Every sample is read, except a rest that does not fill a round of one for each rank.
#~ ranks: misconception: ranks_ignored
#~ ranks: breaks: No sample is read twice, by whichever rank and worker.
#~ readers_collide: misconception: readers_collide
#~ readers_collide: breaks: Every sample is read, except a rest that does not fill a round of one for each rank.
#~ rest: misconception: rest_kept
#~ rest: breaks: Every rank gets the same number of samples.
#~ rounds_of_readers: misconception: too_much_dropped
#~ rounds_of_readers: breaks: Every sample is read, except a rest that does not fill a round of one for each rank.
#~ used_up: misconception: stream_used_up
#~ used_up: breaks: The next epoch reads as many samples again.
#~ workers: misconception: workers_ignored
#~ workers: breaks: Every rank gets the same number of samples.
#~ workers_expected: misconception: none
