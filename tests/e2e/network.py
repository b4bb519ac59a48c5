"""
Network namespaces: processes that share nothing with this machine but a cable each, as on machines of their own.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import os
import random
import subprocess


def run(*command):
    subprocess.run(command, check=True, capture_output=True, timeout=60)


class Network:
    """So many namespaces, where root may make them; otherwise none. What listens at addresses[i] is reached from the
    i-th, and nothing else is."""

    def __init__(self, count):
        self.names, self.addresses = [], []
        place = random.randrange(64, 128)
        try:
            for i in range(count):
                self.add(f"epsilond-{os.getpid()}-{i}", f"e{os.getpid()}-{i}", f"10.213.{place}", 4 * i)
        except (OSError, subprocess.SubprocessError):
            self.close()

    def add(self, name, cable, network, first):
        run("ip", "netns", "add", name)
        self.names.append(name)
        run("ip", "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", name)
        run("ip", "address", "add", f"{network}.{first + 1}/30", "dev", cable)
        run("ip", "link", "set", cable, "up")
        run("ip", "-n", name, "address", "add", f"{network}.{first + 2}/30", "dev", "eth0")
        run("ip", "-n", name, "link", "set", "eth0", "up")
        self.addresses.append(f"{network}.{first + 1}")

    def inside(self, i):
        """What a command begins with that runs in the i-th one."""
        return ["ip", "netns", "exec", self.names[i]] if self.names else []

    def address(self, i):
        return self.addresses[i] if self.names else "127.0.0.1"

    def close(self):
        """The cables go with them."""
        for name in self.names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)
        self.names, self.addresses = [], []

    def __str__(self):
        return "in network namespaces of their own" if self.names else "not in network namespaces, which need root"
