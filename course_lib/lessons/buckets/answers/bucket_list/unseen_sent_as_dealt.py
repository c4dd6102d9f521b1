# misconception: unused_not_reversed
class Dealer:
    def __init__(self, sizes, caps):
        self.sizes, self.caps = sizes, list(caps)
        self.buckets, self.bucket, self.bytes = [], [], 0

    def add(self, number):
        self.bucket.append(number)
        self.bytes += self.sizes[number]
        if self.bytes >= self.caps[0] * 2**20:
            self.close()

    def close(self):
        if self.bucket:
            self.buckets.append(self.bucket)
        self.bucket, self.bytes = [], 0
        if len(self.caps) > 1:
            del self.caps[0]


def bucket_list(sizes, ready, bucket_cap_mb, find_unused_parameters, iteration):
    if iteration == 0 and not find_unused_parameters:
        return [list(range(len(sizes)))]
    dealer = Dealer(sizes, [1, 25] if bucket_cap_mb is None else [bucket_cap_mb])
    for number in range(len(sizes)) if find_unused_parameters else ready:
        dealer.add(number)
    dealer.close()
    return dealer.buckets
