#!/bin/bash
# Puts Flux and its configuration where the other containers of this pod find them.
set -euo pipefail

flux=/mnt/flux
config="$flux/config"

mkdir -p "$config/etc/flux/system" "$config/etc/flux/broker" "$config/etc/curve" \
    "$config/var/lib/flux" "$config/run/flux"
chmod 0755 "$config" "$config/run/flux"

# All nodes, for whoever wants to know.
echo '@HOSTS@' > "$config/etc/flux/system/hostlist"

cat > "$config/etc/flux/broker/broker.toml" <<'END'
[access]
allow-guest-user = true
allow-root-owner = true

[resource]
path = "/mnt/flux/config/etc/flux/system/R"

[bootstrap]
curve_cert = "/mnt/flux/config/etc/curve/curve.cert"
default_port = 8050
default_bind = "tcp://@DEVICE@:%p"
default_connect = "tcp://%h.@DOMAIN@:%p"
hosts = [ { host = "@HOSTS@" } ]

[sched-fluxion-qmanager]
queue-policy = "@QUEUE_POLICY@"
END

# The image has the programs in a view, and what they need beside it.
cp -R /opt/view "$flux/view"
if [ -d /opt/software ]; then
    cp -R /opt/software "$flux/software"
fi
