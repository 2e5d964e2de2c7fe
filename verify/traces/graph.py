#!/usr/bin/env python3
"""graph.py leases|batch|streams|faults|turns < TLC's dump: the state graph, each state by what is seen of it in a trace."""
import re, sys

kind = sys.argv[1]


def variable(label, name):
    return re.search(rf"/\\\\ {name} = (.*?)(?=\\n/\\\\|\"\]|$)", label, re.S).group(1)


def function(text):
    """A function with named arguments, as TLC prints it."""
    pairs = re.findall(r"\(?\s*(\w+|\\\"\w+\\\") :> (<<.*?>>|\{.*?\}|\\\"\w*\\\"|\w+)", text)
    if not pairs:
        pairs = re.findall(r"(\w+) \|-> (<<.*?>>|\{.*?\}|\\\"\w*\\\"|\w+)", text)
    return {key.replace('\\"', ""): value.replace('\\"', "") for key, value in pairs}


def bits(text, low=0):
    return sum(1 << (int(n) - low) for n in re.findall(r"\d+", text))


def leases(label):
    shut = variable(label, "shut") == "TRUE"
    owner = variable(label, "lock").replace('\\"', "")
    number = {"None": "0", "closer": "4"}.get(owner, owner[1:])
    look = f"{bits(variable(label, 'free')) | shut:x} {number}"
    if owner == "None":
        outcome, slot, pc = (function(variable(label, name)) for name in ("outcome", "slot", "pc"))
        for t in ("t1", "t2", "t3"):
            hand = slot[t][1:] if slot[t].startswith("s") else "0"
            became = {"pending": "p", "closed": "c"}.get(outcome[t], outcome[t][1:])
            look += f" {became}{hand}"
    return look


NUMBER = {"None": "0", "a": "1", "b": "2", "c": "3", "w": "4", "keeper": "5", "closer": "6"}


def batch(label):
    shut = int(variable(label, "doorShut") == "TRUE")
    owner = variable(label, "lock").replace('\\"', "")
    look = f"{shut} {bits(variable(label, 'doorLanes'), 1):x} {NUMBER[owner]}"
    if owner == "None":
        phase = variable(label, "phase").replace('\\"', "")
        is_open = int(variable(label, "isOpen") == "TRUE")
        names = lambda name: [NUMBER[n] for n in re.findall(r"\\\"(\w+)\\\"", variable(label, name))]
        look += (f" {phase} {is_open} {bits(variable(label, 'free'), 1):x} {variable(label, 'turns')} {variable(label, 'idle')}"
                 f" {len(names('asleep'))} {variable(label, 'calls')} {len(names('sched'))} [{''.join(names('held'))}]")
    return look


def streams(label):
    """Of each stream: what it was given, and how many of these commands are executed."""
    def shown(match):
        text = match.group(0)
        kind = re.search(r'kind \|-> \\"(\w+)', text).group(1)
        source, tick = (re.search(rf"{name} \|-> (\d+)", text).group(1) for name in ("stream", "tick"))
        return f"({source}.{tick})" if kind == "wait" else kind[0]
    queues = re.sub(r"\[[^][]*\[[^][]*\][^][]*\]", shown, variable(label, "q").replace("\\n", " ")).strip()[2:-2]
    done = re.findall(r"\d+", variable(label, "done"))
    commands = [re.sub("[ ,]", "", queue) for queue in re.findall("<<(.*?)>>", queues)]
    return " ".join(f"{queue}/{count}" for queue, count in zip(commands, done, strict=True))


def faults(label):
    """Of each stream: what its commands used, how many are executed, which one poisons it, and what its thread heard last."""
    commands = re.findall(r"<<([^<>]*)>>", variable(label, "cmds").replace("\\n", " ").replace("|->", "=").strip()[2:-2])
    uses = [re.sub(r"(?:, *)?\[stream = (\d+), tick = (\d+)\]",
                   lambda use: "e" if use.group(1) == "0" else f"({use.group(2)})", one).replace(" ", "") for one in commands]
    done, poison = (re.findall(r"\d+", variable(label, name)) for name in ("done", "poison"))
    heard = [word.replace("nothing", "") for word in re.findall(r"\\\"(\w+)", variable(label, "heard"))]
    return " ".join(f"{a}/{b}!{c}{d}" for a, b, c, d in zip(uses, done, poison, heard, strict=True))


def turns(label):
    """Free turns; who waits, with how often each may still be overtaken; who has a turn."""
    left = re.findall(r"\d+", variable(label, "left"))
    line = [f"{t}:{left[int(t) - 1]} " for t in re.findall(r"\d+", variable(label, "waiting"))]
    has = re.findall("TRUE|FALSE", variable(label, "has"))
    holders = "".join(str(t) for t, one in enumerate(has, 1) if one == "TRUE")
    return f"{variable(label, 'free')} {''.join(line)}[{holders}]"


look = {"leases": leases, "batch": batch, "streams": streams, "faults": faults, "turns": turns}[kind]
numbers, states, edges, first = {}, [], [], []
for line in sys.stdin:
    edge = re.match(r"(-?\d+) -> (-?\d+)", line)
    if edge:
        edges.append(edge.groups())
        continue
    node = re.match(r"(-?\d+) \[label=\"(.*)", line)
    if node and node.group(1) not in numbers:
        numbers[node.group(1)] = len(states)
        states.append(look(node.group(2)))
        if "style = filled" in line:
            first.append(node.group(1))
for state in states:
    print("s", state)
for one in first:
    print("i", numbers[one])
for one, other in sorted({(numbers[a], numbers[b]) for a, b in edges if a != b}):
    print("e", one, other)
