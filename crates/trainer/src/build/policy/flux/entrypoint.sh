#!/bin/bash
# Runs the broker of this pod; in the first pod it runs the command, which is the only argument.
set -uo pipefail

view=/mnt/flux/view
config=/mnt/flux/config
command="${1:-}"

# Programs look for their libraries where they were built.
if [ -d /mnt/flux/software ]; then
    cp -R /mnt/flux/software/. /opt/software/
fi
# Last, so that what the container has itself comes first.
export PATH="$PATH:$view/bin"
for packages in "$view"/lib/python3*/site-packages; do
    export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$packages"
done

# Flux takes no certificate that others can read.
install -m 0600 /curve/curve.cert "$config/etc/curve/curve.cert" || exit 1
flux R encode --hosts='@HOSTS@' --cores=@CORES@@GPUS@ > "$config/etc/flux/system/R" || exit 1

broker() {
    flux broker --config-path="$config/etc/flux/broker" \
        -Srundir="$config/run/flux" -Sstatedir="$config/var/lib/flux" "$@"
}

if [ "$(hostname)" = '@LEADER@' ]; then
    if [ -z "$command" ]; then
        broker
        exit $?
    fi
    # The command is words with blanks between them, and no pattern for names of files.
    set -f
    # shellcheck disable=SC2086
    broker flux run -N @NODES@ -n @TASKS@@GPUS_EACH@ $command
    exit $?
fi

# The first pod may come later than this one.
until broker; do
    sleep 15
done
