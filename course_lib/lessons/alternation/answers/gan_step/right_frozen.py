import torch
from torch.nn.functional import softplus


def gan_step(generator, discriminator, generator_optimizer, discriminator_optimizer, real, noise):
    with torch.no_grad():
        fake = generator(noise)
    scores = discriminator(torch.cat([real, fake]))
    signs = torch.cat([-torch.ones(len(real), 1), torch.ones(len(fake), 1)])
    loss = 2 * softplus(signs * scores).mean()
#~ mean_of_losses -1 |    loss = softplus(signs * scores).mean()
    discriminator_optimizer.zero_grad()
    loss.backward()
    discriminator_optimizer.step()
    discriminator.requires_grad_(False)
    generator_optimizer.zero_grad()
    softplus(-discriminator(generator(noise))).mean().backward()
    generator_optimizer.step()
    discriminator.requires_grad_(True)

#~ mean_of_losses: misconception: none
#~ mean_of_losses: breaks: The weights are those of one process that trains on the samples of all ranks.
