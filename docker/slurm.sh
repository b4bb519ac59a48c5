#!/bin/bash
# Workers of an epsilond that has a broker, as a job array of Slurm: each element is one worker, which computes until
# its time is over.
#
#   sbatch --array=1-40 --time=12:00:00 docker/slurm.sh
#
# ~/.config/epsilond/worker.env has EPSILOND_BROKER=amqps://worker:SECRET@broker.example/epsilond, and
# EPSILOND_BROKER_CA if the authority of the broker is not one of the system's; only its owner can read it (chmod 600).
#
# Nodes need the server's build of epsilond and its kind of processor (--constraint): others are refused.
#
# SPDX-License-Identifier: GPL-3.0-or-later
#SBATCH --job-name=epsilond-worker
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=8
#SBATCH --mem-per-cpu=2G
#SBATCH --requeue
# A minute before its time is over, it gives its jobs back to the others, and ends.
#SBATCH --signal=B:TERM@60
set -eu

configuration=${EPSILOND_WORKER_ENV:-$HOME/.config/epsilond/worker.env}
set -a
. "$configuration"
set +a
# In the place of this shell, so that the signal reaches it.
exec epsilond worker --workers "${SLURM_CPUS_PER_TASK:-1}"
