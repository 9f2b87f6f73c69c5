//! Tests of container configs: commands, users, limits, mounts, and errors.

use std::path::{Path, PathBuf};

use muster_process::{ImagePullPolicy, Isolation, ResourceLimits, RunAs};
use muster_tree::{Tree, tree};

use super::super::ClusterDns;
use super::super::security_context::PROCESSES_MAX;
use super::{Place, World, config_map, pod, pod_with};

#[test]
fn commands() {
    let place = Place::of(World::default());
    for (says, container, want) in [
        ("a command", tree!({"command": ["sh", "-c", "echo $HOME"]}), Ok(vec!["sh", "-c", "echo $HOME"])),
        ("with arguments", tree!({"command": ["a"], "args": ["b", ""]}), Ok(vec!["a", "b", ""])),
        (
            "variables, but none of those that are not the pod's",
            tree!({"command": ["$(A)"], "args": ["$$(A)", "$(B)", "$(HOSTNAME)"], "env": [{"name": "A", "value": "x"}]}),
            Ok(vec!["x", "$(A)", "$(B)", "$(HOSTNAME)"]),
        ),
        (
            "nothing to run",
            tree!({"command": []}),
            Err("container \"c\" has no command, and image \"i\" is only a name on this node: \
                 add command with a program of this machine"),
        ),
        (
            "arguments of what is in the image",
            tree!({"command": [], "args": ["--help"]}),
            Err("container \"c\" has no command, and image \"i\" is only a name on this node: \
                 add command with a program of this machine; args alone are not enough"),
        ),
    ] {
        let got = place.launch(&pod(&container, &tree!({})));
        match want {
            Ok(want) => {
                assert_eq!(
                    got.map(|it| it.argv),
                    Ok(want.into_iter().map(str::to_owned).collect()),
                    "{says}"
                );
            }
            Err(want) => {
                let problem = got.unwrap_err();
                assert_eq!(
                    (problem.event, problem.waiting),
                    ("Failed", "CreateContainerConfigError"),
                    "{says}"
                );
                assert_eq!(problem.message, want, "{says}");
                assert_eq!(problem.note(), format!("Error: {want}"), "{says}");
            }
        }
    }
}

#[test]
fn container_engine_images() {
    let place = Place { images: true, ..Place::of(World::default()) };
    for (says, container, argv, of_image, pull) in [
        (
            "a command",
            tree!({"command": ["a"], "args": ["b"]}),
            vec!["a", "b"],
            false,
            ImagePullPolicy::Missing,
        ),
        ("the image's own", tree!({"command": []}), vec![], true, ImagePullPolicy::Missing),
        ("with arguments", tree!({"command": [], "args": ["b"]}), vec!["b"], true, ImagePullPolicy::Missing),
        ("never fetched", tree!({"imagePullPolicy": "Never"}), vec!["true"], false, ImagePullPolicy::Never),
        (
            "always wanted",
            tree!({"imagePullPolicy": "Always"}),
            vec!["true"],
            false,
            ImagePullPolicy::Missing,
        ),
    ] {
        let made = place.launch(&pod(&container, &tree!({}))).unwrap();
        assert_eq!(
            (made.argv, made.image_program, made.pull),
            (argv.into_iter().map(str::to_owned).collect(), of_image, pull,),
            "{says}"
        );
        let has = |name: &str| made.env.iter().any(|(it, _)| it == name);
        assert!(!has("PATH") && !has("HOME") && has("HOSTNAME"), "{says}: those of the image");
        assert_eq!(made.mounts, [], "{says}: no home of ours");
    }
    let unknown = tree!({"securityContext": {"runAsNonRoot": true}});
    let problem = place.launch(&pod(&unknown, &tree!({}))).unwrap_err();
    assert!(problem.message.contains("set runAsUser"), "{}", problem.message);
    let known = tree!({"securityContext": {"runAsNonRoot": true, "runAsUser": 7}});
    assert_eq!(place.launch(&pod(&known, &tree!({}))).unwrap().user.uid, Some(7));
}

#[test]
fn a_complete_container_config() {
    let place = Place::of(World::default());
    let container = tree!({"image": "pytorch:2", "workingDir": "/work", "stdin": true, "stdinOnce": true, "tty": true,
        "terminationMessagePath": "/tmp/last", "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {"readOnlyRootFilesystem": true}});
    let made = place.launch(&pod(&container, &tree!({}))).unwrap();
    assert_eq!(made.id.to_string(), "u-1/c/0");
    assert_eq!(
        (made.pod_name.as_str(), made.image.as_str(), made.hostname.as_str()),
        ("n/p", "pytorch:2", "p")
    );
    assert_eq!(made.dir.as_deref(), Some(Path::new("/work")));
    assert_eq!(made.hosts, place.folder.path().join("pods/u-1/hosts"));
    assert!(made.stdin && made.stdin_once && made.tty && made.read_only_root && made.message_from_log);
    assert_eq!(made.message_path, Path::new("/tmp/last"));
    let plain = place.launch(&pod(&tree!({}), &tree!({}))).unwrap();
    assert_eq!(plain.message_path, Path::new("/dev/termination-log"));
    assert_eq!(plain.dir.as_deref(), Some(Path::new("/muster/home")), "a folder of its own");
    assert!(
        !(plain.stdin || plain.stdin_once || plain.tty || plain.read_only_root || plain.message_from_log)
    );
}

#[test]
fn users() {
    let who = "(pod: \"p_n(u-1)\", container: c)";
    let root = format!("container has runAsNonRoot and image will run as root {who}");
    let breaks = format!("container's runAsUser breaks non-root policy {who}");
    let identity = |uid, gid, groups: &[u32]| Ok(RunAs { uid, gid, groups: groups.to_vec() });
    for (says, user, own, all, want) in [
        ("as the server", 0, tree!({}), tree!({}), identity(None, None, &[])),
        (
            "told to the pod",
            0,
            tree!({}),
            tree!({"runAsUser": 7, "runAsGroup": 8}),
            identity(Some(7), Some(8), &[]),
        ),
        (
            "the container's word is the last",
            0,
            tree!({"runAsUser": 9}),
            tree!({"runAsUser": 7, "runAsGroup": 8}),
            identity(Some(9), Some(8), &[]),
        ),
        (
            "groups",
            0,
            tree!({}),
            tree!({"fsGroup": 5, "supplementalGroups": [6, 7]}),
            identity(None, None, &[5, 6, 7]),
        ),
        ("root is refused", 0, tree!({}), tree!({"runAsNonRoot": true}), Err(root.clone())),
        ("by the container too", 0, tree!({"runAsNonRoot": true}), tree!({}), Err(root)),
        (
            "the container does not mind",
            0,
            tree!({"runAsNonRoot": false}),
            tree!({"runAsNonRoot": true}),
            identity(None, None, &[]),
        ),
        ("root by number", 0, tree!({"runAsUser": 0}), tree!({"runAsNonRoot": true}), Err(breaks)),
        (
            "not root",
            0,
            tree!({}),
            tree!({"runAsNonRoot": true, "runAsUser": 7}),
            identity(Some(7), None, &[]),
        ),
        (
            "a server that is not root keeps its number",
            1000,
            tree!({}),
            tree!({"runAsNonRoot": true}),
            identity(Some(1000), Some(100), &[]),
        ),
    ] {
        let mut place = Place::of(World::default());
        place.user = (user, 100);
        let container = tree!({"securityContext": own});
        let got = place.launch(&pod(&container, &tree!({"securityContext": all})));
        assert_eq!(got.map(|it| it.user).map_err(|it| it.message), want, "{says}");
    }
    let mut place = Place::of(World::default());
    (place.user, place.isolation) = ((1000, 100), Isolation::None);
    let made = place.launch(&pod(&tree!({"securityContext": {"runAsNonRoot": true}}), &tree!({}))).unwrap();
    assert_eq!(made.user, RunAs::default(), "it is not root anyway");
}

#[test]
fn limits() {
    let place = Place::of(World::default());
    let pod_level = tree!({"resources": {"limits": {"memory": "1Gi"}}});
    for (says, limits, spec, cpu, memory) in [
        ("none", tree!({}), tree!({}), None, None),
        ("both", tree!({"cpu": "1500m", "memory": "512Mi"}), tree!({}), Some(1500), Some(512 << 20)),
        ("numbers", tree!({"cpu": 2}), tree!({}), Some(2000), None),
        ("of the pod as a whole", tree!({"cpu": "1"}), pod_level, Some(1000), Some(1 << 30)),
        ("nothing is no limit", tree!({"cpu": "0"}), tree!({}), None, None),
    ] {
        let made = place.launch(&pod(&tree!({"resources": {"limits": limits}}), &spec)).unwrap();
        let want = ResourceLimits { cpu_millis: cpu, memory_bytes: memory, processes: PROCESSES_MAX };
        assert_eq!(made.limits, want, "{says}");
    }
}

fn mounted(place: &Place, mounts: Tree, volumes: Tree) -> Result<Vec<(PathBuf, PathBuf, bool)>, String> {
    let container = tree!({"volumeMounts": mounts, "env": [{"name": "RANK", "value": "3"}, {"name": "NONE", "value": ""}]});
    let made = place.launch(&pod(&container, &tree!({"volumes": volumes}))).map_err(|it| it.message)?;
    let all = made.mounts.into_iter().filter(|it| it.target != Path::new("/muster/home"));
    Ok(all.map(|it| (it.source, it.target, it.read_only)).collect())
}

#[test]
fn mounts() {
    let place = Place::of(World::of([config_map("config", &tree!({"key": "x"}))]));
    let volumes = || tree!([{"name": "s", "emptyDir": {}}, {"name": "f", "configMap": {"name": "config"}}]);
    let folder = place.folder.path().join("pods/u-1/volumes").canonicalize().unwrap_or_else(|_| {
        std::fs::create_dir_all(place.folder.path().join("pods/u-1/volumes")).unwrap();
        place.folder.path().join("pods/u-1/volumes").canonicalize().unwrap()
    });
    let at = |source: &str, target: &str, read_only| (folder.join(source), PathBuf::from(target), read_only);
    for (says, mounts, want) in [
        (
            "parents before children, whatever the order",
            tree!([{"name": "s", "mountPath": "/a/b"}, {"name": "s", "mountPath": "/a-b"}, {"name": "s", "mountPath": "/a"}]),
            Ok(vec![at("s", "/a", false), at("s", "/a/b", false), at("s", "/a-b", false)]),
        ),
        (
            "read-only, if asked for",
            tree!([{"name": "s", "mountPath": "/a", "readOnly": true}]),
            Ok(vec![at("s", "/a", true)]),
        ),
        (
            "files are read-only always",
            tree!([{"name": "f", "mountPath": "/a", "readOnly": false}]),
            Ok(vec![at("f", "/a", true)]),
        ),
        ("from the root", tree!([{"name": "s", "mountPath": "a"}]), Ok(vec![at("s", "/a", false)])),
        (
            "a part that is made",
            tree!([{"name": "s", "mountPath": "/a", "subPath": "x/y"}]),
            Ok(vec![at("s/x/y", "/a", false)]),
        ),
        (
            "a part with a variable",
            tree!([{"name": "s", "mountPath": "/a", "subPathExpr": "rank-$(RANK)"}]),
            Ok(vec![at("s/rank-3", "/a", false)]),
        ),
        (
            "a key of an object",
            tree!([{"name": "f", "mountPath": "/a", "subPath": "key"}]),
            Ok(vec![at("f/..v1/key", "/a", true)]),
        ),
        (
            "variables without a value",
            tree!([{"name": "s", "mountPath": "/a", "subPathExpr": "$(NONE)/$(MISSING)"}]),
            Err("missing value for MISSING, NONE"),
        ),
        (
            "out of the volume",
            tree!([{"name": "s", "mountPath": "/a", "subPath": "../x"}]),
            Err("unable to provision SubPath `../x`: must not contain '..'"),
        ),
        (
            "from the machine's root",
            tree!([{"name": "s", "mountPath": "/a", "subPath": "/etc"}]),
            Err("error SubPath `/etc` must not be an absolute path"),
        ),
        (
            "no such volume",
            tree!([{"name": "x", "mountPath": "/a"}]),
            Err("cannot find volume \"x\" to mount into container \"c\""),
        ),
    ] {
        assert_eq!(mounted(&place, mounts, volumes()), want.map_err(str::to_owned), "{says}");
    }
}

#[test]
fn no_symlink_escapes_a_volume() {
    let place = Place::of(World::default());
    let volumes = || tree!([{"name": "s", "emptyDir": {}}]);
    let try_part =
        |part: &str| mounted(&place, tree!([{"name": "s", "mountPath": "/a", "subPath": part}]), volumes());
    try_part("inside/deep").unwrap();
    let folder = place.folder.path().join("pods/u-1/volumes/s");
    let outside = place.folder.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::os::unix::fs::symlink(&outside, folder.join("out")).unwrap();
    std::os::unix::fs::symlink("inside", folder.join("in")).unwrap();
    std::os::unix::fs::symlink("/nowhere", folder.join("dangling")).unwrap();
    for part in ["out", "out/new", "inside/../out", "dangling"] {
        let why = try_part(part).unwrap_err();
        assert!(
            why.contains("volumeMount \"s\" of container \"c\"") || why.contains("must not contain '..'"),
            "{part}: {why}"
        );
    }
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0, "nothing was made out there");
    assert_eq!(try_part("in/deep").unwrap()[0].0, folder.canonicalize().unwrap().join("inside/deep"));
}

#[test]
fn without_mounts_a_sub_path_of_projected_files_stays_updatable() {
    let mut place = Place::of(World::of([config_map("config", &tree!({"key": "x"}))]));
    place.isolation = Isolation::None;
    let volumes = tree!([{"name": "f", "configMap": {"name": "config"}}]);
    let got = mounted(&place, tree!([{"name": "f", "mountPath": "/a", "subPath": "key"}]), volumes).unwrap();
    assert_eq!(got[0].0, place.folder.path().join("pods/u-1/volumes/f/key"));
}

#[test]
fn sub_paths_inherit_the_mode_of_their_volume() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::of(World::default());
    let spec = tree!({"volumes": [{"name": "s", "emptyDir": {}}], "securityContext": {"fsGroup": 0}});
    let container = tree!({"volumeMounts": [{"name": "s", "mountPath": "/a", "subPath": "x"}]});
    let made = place.launch(&pod(&container, &spec)).unwrap();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o7777;
    let part = &made.mounts[0].source;
    assert_eq!((mode(part), mode(part.parent().unwrap())), (0o2777, 0o2777));
}

#[test]
fn resolv_conf_follows_the_dns_policy() {
    let mut place = Place::of(World::default());
    place.world.resolver = Some(ClusterDns { address: "127.5.5.5".into(), search: Vec::new() });
    let files = |place: &Place, container: &Tree, volumes: Tree| {
        let made = place.launch(&pod(container, &tree!({"volumes": volumes}))).unwrap();
        let all = made.mounts.into_iter().filter(|it| it.target == Path::new("/etc/resolv.conf"));
        all.map(|it| (std::fs::read_to_string(it.source).unwrap_or_default(), it.read_only))
            .collect::<Vec<_>>()
    };
    let own = files(&place, &tree!({}), Tree::Null);
    assert!(own.len() == 1 && own[0].0.starts_with("nameserver 127.5.5.5\n") && own[0].1, "{own:?}");
    let taken = tree!({"volumeMounts": [{"name": "s", "mountPath": "/etc/resolv.conf"}]});
    assert_eq!(
        files(&place, &taken, tree!([{"name": "s", "emptyDir": {}}])),
        [(String::new(), false)],
        "the pod's own"
    );
    place.isolation = Isolation::None;
    assert_eq!(files(&place, &tree!({}), Tree::Null), [], "there is nothing that could be mounted over");
}

#[test]
fn block_devices_are_rejected() {
    let place = Place::of(World::default());
    let spec = tree!({"volumes": [{"name": "d", "emptyDir": {}}]});
    let container = tree!({"volumeDevices": [{"name": "d", "devicePath": "/dev/x"}]});
    let problem = place.launch(&pod(&container, &spec)).unwrap_err();
    assert_eq!(
        problem.message,
        "container \"c\" asks for block device \"d\": volumeDevices are not supported on this node, use volumeMounts"
    );
}

#[test]
fn unused_volumes_are_not_resolved() {
    let place = Place::of(World::default());
    let spec = tree!({"volumes": [{"name": "x", "configMap": {"name": "no"}}, {"name": "y", "nfs": {}}]});
    let made = place.volumes(&pod(&tree!({}), &spec)).unwrap();
    assert_eq!(made.len(), 1, "only the home");
    assert!(place.volumes(&pod_with(&tree!({"configMap": {"name": "no"}}), &tree!({}))).is_err());
}

#[test]
fn mpi_over_ssh_needs_its_programs() {
    use std::os::unix::fs::PermissionsExt;
    let mut place = Place::of(World::of([super::secret("keys", &tree!({}))]));
    let spec = tree!({"volumes": [{"name": "mpi-ssh-auth", "secret": {"secretName": "keys"}}]});
    let programs = place.folder.path().join("programs");
    std::fs::create_dir_all(&programs).unwrap();
    place.search_path = programs.display().to_string().into();
    let node = tree!({"command": ["/usr/sbin/sshd", "-De"]});
    let problem = place.launch(&pod(&node, &spec)).unwrap_err();
    assert_eq!((problem.event, problem.waiting), ("Failed", "CreateContainerConfigError"));
    let words = "MPI over SSH needs sshd and mpirun on this machine, and there is no ";
    assert!(problem.message.starts_with(words) && problem.message.contains("mpirun"), "{}", problem.message);
    let launches = |place: &Place, command: Tree, spec: &Tree| {
        place.launch(&pod(&tree!({"command": command}), spec)).is_ok()
    };
    assert!(!launches(&place, tree!(["mpirun", "train"]), &spec));
    assert!(
        launches(&place, tree!(["sh", "-c", "cat /etc/mpi/hostfile"]), &spec),
        "another way to start them"
    );
    assert!(launches(&place, tree!(["mpirun", "train"]), &tree!({})), "no keys, no SSH");
    for name in ["sshd", "mpirun"] {
        let path = programs.join(name);
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    assert!(launches(&place, tree!(["mpirun", "train"]), &spec));
    let engine = Place { images: true, search_path: "/nowhere".into(), ..place };
    assert!(launches(&engine, tree!(["mpirun", "train"]), &spec), "the image has them");
}
