from torch.nn.functional import softplus


def gan_step(generator, discriminator, generator_optimizer, discriminator_optimizer, real, noise):
#~ module -0 |    d = discriminator.module
    fake = generator(noise)
    discriminator_optimizer.zero_grad()
    with discriminator.no_sync():
        softplus(-discriminator(real)).mean().backward()
    softplus(discriminator(fake.detach())).mean().backward()
#~ module -3 |    (softplus(-d(real)).mean() + softplus(d(fake.detach())).mean()).backward()
#~ not_detached -3 |    loss = softplus(-discriminator(real)).mean() + softplus(discriminator(fake)).mean()
#~ |    loss.backward(retain_graph=True)
#~ stale -4 |    (softplus(-discriminator(real)).mean() + softplus(discriminator(fake.detach())).mean()).backward()
#~ two_backwards -3 |    real_scores, fake_scores = discriminator(real), discriminator(fake.detach())
#~ |    softplus(-real_scores).mean().backward()
#~ |    softplus(fake_scores).mean().backward()
    discriminator_optimizer.step()
#~ old_discriminator -5
    generator_optimizer.zero_grad()
    softplus(-discriminator(fake)).mean().backward()
#~ module -1 |    softplus(-d(fake)).mean().backward()
#~ old_discriminator -0 |    discriminator_optimizer.zero_grad()
#~ |    (softplus(-discriminator(real)).mean() + softplus(discriminator(fake.detach())).mean()).backward()
#~ |    discriminator_optimizer.step()
    generator_optimizer.step()

#~ module: misconception: around_the_wrapper
#~ module: breaks: All ranks end with the same weights.
#~ not_detached: misconception: fake_not_detached
#~ not_detached: breaks: All ranks end with the same weights.
#~ old_discriminator: misconception: old_discriminator
#~ old_discriminator: breaks: The weights are those of one process that trains on the samples of all ranks.
#~ stale: misconception: stale_gradients
#~ stale: breaks: The weights are those of one process that trains on the samples of all ranks.
#~ two_backwards: misconception: two_backwards
#~ two_backwards: breaks: All ranks end with the same weights.
