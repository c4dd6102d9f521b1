#~ copies -0 |import copy
#~ |
#~ encoder_copied -0 |import copy
#~ |
#~ head_copied -0 |import copy
#~ |
import torch


class Together(torch.nn.Module):
    def __init__(self, encoder, head):
#~ init_late -0 |        self.encoder, self.head = encoder, head
        super().__init__()
        self.encoder, self.head = encoder, head
#~ copies -1 |        self.encoder, self.head = copy.deepcopy(encoder), copy.deepcopy(head)
#~ init_late -1
#~ encoder_copied -1 |        self.encoder, self.head = copy.deepcopy(encoder), head
#~ encoder_hidden -1 |        self.parts, self.head = [encoder], head
#~ head_copied -1 |        self.encoder, self.head = encoder, copy.deepcopy(head)
#~ head_hidden -1 |        self.encoder, self.parts = encoder, [head]
#~ list -1 |        self.parts = [encoder, head]

    def forward(self, *inputs):
        embeddings = tuple(self.encoder(each) for each in inputs)
#~ encoder_hidden -1 |        embeddings = tuple(self.parts[0](each) for each in inputs)
#~ no_grad -1 |        with torch.no_grad():
#~ |            embeddings = tuple(self.encoder(each) for each in inputs)
#~ all_but_last -1 |        with torch.no_grad():
#~ |            others = [self.encoder(each) for each in inputs[:-1]]
#~ |        embeddings = (*others, self.encoder(inputs[-1]))
#~ all_but_first -1 |        embeddings = [self.encoder(inputs[0])]
#~ |        with torch.no_grad():
#~ |            embeddings += [self.encoder(each) for each in inputs[1:]]
#~ first_two -1 |        embeddings = tuple(self.encoder(each) for each in inputs[:2])
#~ lesson_cell -2 |    def forward(self, images):
#~ |        embeddings = self.encoder(images[0]), self.encoder(images[1])
#~ one_or_two -2 |    def forward(self, first, second=None):
#~ |        embeddings = tuple(self.encoder(each) for each in (first, second) if each is not None)
#~ no_input -2 |    def forward(self):
#~ |        embeddings = tuple(self.encoder(each) for each in self.inputs)
#~ two_inputs -2 |    def forward(self, first, second):
#~ |        embeddings = tuple(self.encoder(each) for each in (first, second))
        return {"scores": self.head(*embeddings), "embeddings": embeddings}
#~ detached -1 |        return {"scores": self.head(*embeddings), "embeddings": tuple(each.detach() for each in embeddings)}
#~ embeddings_reversed -1 |        return {"scores": self.head(*embeddings), "embeddings": embeddings[::-1]}
#~ head_hidden -1 |        return {"scores": self.parts[0](*embeddings), "embeddings": embeddings}
#~ head_on_detached -1 |        return {"scores": self.head(*[each.detach() for each in embeddings]), "embeddings": embeddings}
#~ list -2 |        embeddings = tuple(self.parts[0](each) for each in inputs)
#~ |        return {"scores": self.parts[1](*embeddings), "embeddings": embeddings}
#~ pair -1 |        return embeddings, self.head(*embeddings)
#~ reversed -1 |        return {"scores": self.head(*embeddings[::-1]), "embeddings": embeddings}
#~ stacked -1 |        return {"scores": self.head(torch.stack(embeddings)), "embeddings": embeddings}
#~ head_and_output_detached -1 |        cut = tuple(each.detach() for each in embeddings)
#~ |        return {"scores": self.head(*cut), "embeddings": cut}
#~ scores_detached -1 |        return {"scores": self.head(*embeddings).detach(), "embeddings": embeddings}
#~ tuple_on -1 |        return {"scores": self.head(embeddings), "embeddings": embeddings}

#~ all_but_first: misconception: detached
#~ all_but_last: misconception: detached
#~ all_but_last: breaks: The given parts end with the weights of one process that trains on the samples of all ranks.
#~ copies: misconception: copied
#~ copies: breaks: The given parts end with the weights of one process that trains on the samples of all ranks.
#~ detached: misconception: detached
#~ detached: breaks: The given parts end with the weights of one process that trains on the samples of all ranks.
#~ embeddings_reversed: misconception: none
#~ first_two: misconception: fixed_number
#~ embeddings_reversed: breaks: Scores and embeddings are those of the given encoder and head, in the order of the inputs.
#~ encoder_copied: misconception: copied
#~ encoder_hidden: misconception: hidden
#~ head_copied: misconception: copied
#~ head_hidden: misconception: hidden
#~ one_or_two: misconception: fixed_number
#~ head_on_detached: misconception: detached
#~ head_on_detached: breaks: The given parts end with the weights of one process that trains on the samples of all ranks.
#~ head_and_output_detached: misconception: detached
#~ init_late: misconception: init_comes_late
#~ lesson_cell: misconception: fixed_number
#~ list: misconception: hidden
#~ no_grad: misconception: detached
#~ no_input: misconception: fixed_number
#~ pair: misconception: none
#~ reversed: misconception: none
#~ reversed: breaks: Scores and embeddings are those of the given encoder and head, in the order of the inputs.
#~ scores_detached: misconception: detached
#~ stacked: misconception: one_tuple
#~ stacked: breaks: Scores and embeddings are those of the given encoder and head, in the order of the inputs.
#~ tuple_on: misconception: one_tuple
#~ two_inputs: misconception: fixed_number
