//! The scripts of Flux: their placeholders, and that a shell parses them.

use muster_tree::{Tree, tree};

use super::case;

/// A script that a case builds.
fn script(case: &Tree, name: &str) -> String {
    let built = case::build(case).unwrap();
    let scripts = built.objects.iter().find(|it| it.str_at(&["metadata", "name"]) == "tj-flux-entrypoint");
    scripts.unwrap().get("data").unwrap().get(name).unwrap().as_str().unwrap().to_owned()
}

fn has(script: &str, lines: &[&str]) {
    for line in lines {
        assert!(script.lines().any(|it| it.trim() == *line), "no line {line:?} in\n{script}");
    }
}

#[test]
fn brokers_are_told_of_each_other() {
    let init = script(&tree!({"runtime": "flux", "trainer": {"numNodes": 4}}), "init.sh");
    has(
        &init,
        &[
            "echo 'tj-node-0-[0-3]' > \"$config/etc/flux/system/hostlist\"",
            "default_port = 8050",
            "default_bind = \"tcp://eth0:%p\"",
            "default_connect = \"tcp://%h.tj.ns.svc.cluster.local:%p\"",
            "hosts = [ { host = \"tj-node-0-[0-3]\" } ]",
            "curve_cert = \"/mnt/flux/config/etc/curve/curve.cert\"",
            "path = \"/mnt/flux/config/etc/flux/system/R\"",
            "queue-policy = \"fcfs\"",
            "cp -R /opt/view \"$flux/view\"",
        ],
    );
    let said = tree!({"runtime": "flux", "trainer": {"numNodes": 1, "env": [
        {"name": "FLUX_NETWORK_DEVICE", "value": "ib0"}, {"name": "FLUX_QUEUE_POLICY", "value": "easy"}]}});
    has(
        &script(&said, "init.sh"),
        &[
            "hosts = [ { host = \"tj-node-0-[0]\" } ]",
            "default_bind = \"tcp://ib0:%p\"",
            "queue-policy = \"easy\"",
        ],
    );
}

#[test]
fn the_first_pod_runs_the_command_on_all_nodes() {
    for (trainer, resources, run) in [
        (tree!({"numNodes": 1}), "--cores=0-1 >", "broker flux run -N 1 -n 2 $command"),
        (tree!({"numNodes": 3, "numProcPerNode": 4}), "--cores=0-3 >", "broker flux run -N 3 -n 12 $command"),
        (
            tree!({"numNodes": 2, "resourcesPerNode": {"limits": {"nvidia.com/gpu": 2}}}),
            "--cores=0-1 --gpu=0-1 >",
            "broker flux run -N 2 -n 4 -g 2 $command",
        ),
    ] {
        let entrypoint = script(&tree!({"runtime": "flux", "trainer": trainer}), "entrypoint.sh");
        has(&entrypoint, &[run, "if [ \"$(hostname)\" = 'tj-node-0-0' ]; then", "sleep 15"]);
        assert!(entrypoint.contains(resources), "{resources} in\n{entrypoint}");
    }
}

#[test]
fn nothing_is_left_to_fill_in_and_a_shell_reads_them() {
    let case = tree!({"runtime": "flux", "trainer": {"numNodes": 2, "resourcesPerNode": {"limits": {"nvidia.com/gpu": 1}}}});
    for name in ["init.sh", "entrypoint.sh"] {
        let text = script(&case, name);
        let left =
            text.split('@').skip(1).filter(|it| it.starts_with(|c: char| c.is_ascii_uppercase())).count();
        assert_eq!(left, 0, "{text}");
        let read = std::process::Command::new("bash").args(["-n", "-c", &text]).output().unwrap();
        assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    }
}
