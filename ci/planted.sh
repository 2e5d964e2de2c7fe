#!/bin/sh
# The compiler, with the planted bugs: see ci/loom.sh.
exec "$@" --cfg planted
