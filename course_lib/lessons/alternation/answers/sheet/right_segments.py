# Each rank alone first: the sums between its averages. Then both, average by average.
def sheet(first, second):
    one, other = between_averages(first, 1.0), between_averages(second, 3.0)
    if len(one) != len(other):
        return "hang"
#~ no_hang -2
#~ all_arm_no_hang -2
#~ unequal -2 |    if first != second:
#~ |        return "hang"
    have = [0.0, 0.0]
    for number in range(len(one)):
#~ no_hang -1 |    for number in range(min(len(one), len(other))):
#~ all_arm_no_hang -1 |    for number in range(min(len(one), len(other))):
#~ unequal -1 |    for number in range(min(len(one), len(other))):
        have = [have[0] + one[number], have[1] + other[number]]
        if number < len(one) - 1:
#~ no_hang -1 |        if number < min(len(one), len(other)) - 1:
#~ all_arm_no_hang -1 |        if number < min(len(one), len(other)) - 1:
            have = [sum(have) / 2] * 2
#~ summed -1 |            have = [sum(have)] * 2
    return have


def between_averages(calls, size):
    sums, armed, losses = [0.0], False, []
    for call in calls:
        if call in "FNGM":
            armed |= call == "F"
#~ module_disarms -1 |            armed = call == "F" or (armed and call != "M")
#~ all_arm -1 |            armed = True
#~ all_arm_no_hang -1 |            armed = True
#~ module_arms -1 |            armed |= call in "FM"
#~ no_sync_arms -1 |            armed |= call in "FN"
#~ no_grad_arms -1 |            armed |= call in "FG"
            losses += [size] if call != "G" else []
#~ no_grad_waits -1 |            losses += [size]
            size *= 10
        else:
            taken, losses = (losses, []) if call == "S" else (losses[:1], losses[1:])
#~ newest_first -1 |            taken, losses = (losses, []) if call == "S" else (losses[-1:], losses[:-1])
            sums[-1] += sum(taken)
            sums += [0.0] if armed else []
            armed = False
#~ never_disarmed -1
#~ stays_armed_after_s -1 |            armed = armed and call == "S"
    return sums


#~ all_arm: misconception: all_forwards_arm
#~ all_arm_no_hang: misconceptions: all_forwards_arm, hang_not_seen
#~ module_arms: misconception: all_forwards_arm
#~ module_disarms: misconception: none
#~ never_disarmed: misconception: none
#~ newest_first: misconception: none
#~ no_grad_arms: misconception: all_forwards_arm
#~ no_grad_waits: misconception: none
#~ no_sync_arms: misconception: all_forwards_arm
#~ no_hang: misconception: hang_not_seen
#~ no_hang: breaks: It is what two real ranks have that make these calls.
#~ stays_armed_after_s: misconception: none
#~ summed: misconception: summed
#~ summed: breaks: It is what two real ranks have that make these calls.
#~ unequal: misconception: unequal_hangs
