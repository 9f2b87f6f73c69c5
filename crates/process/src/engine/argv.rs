//! Command lines of container engines; docker and podman accept the same ones.

use std::path::Path;

use super::{ContainerEngine, EngineContainerState};
use crate::container_config::{ContainerConfig, Mount};

/// Output format of [`inspect`].
const FORMAT: &str = "{{.State.Running}} {{.State.OOMKilled}} {{.State.StartedAt}}";
/// Year of the zero time: the container was never started.
const NEVER: &str = "0001-";

/// `create` from a local image.
#[must_use]
pub fn create(launch: &ContainerConfig, name: &str, message: &Path) -> Vec<String> {
    let mut all = Args::of(&["create", "--name", name, "--network", "host"]);
    all.add(&["--hostname", &launch.hostname]);
    // Volumes are host directories; SELinux relabelling would take them from other processes.
    all.add(&["--security-opt", "label=disable"]);
    let own = [
        Mount { source: launch.hosts.clone(), target: "/etc/hosts".into(), read_only: false },
        Mount { source: message.into(), target: launch.message_path.clone(), read_only: false },
    ];
    let is_taken = |it: &&Mount| !launch.mounts.iter().any(|other| other.target == it.target);
    for it in launch.mounts.iter().chain(own.iter().filter(is_taken)) {
        all.add(&["--mount", &mount(it)]);
    }
    for (name, value) in &launch.env {
        all.add(&["--env", &format!("{name}={value}")]);
    }
    if let Some(dir) = &launch.dir {
        all.add(&["--workdir", &dir.display().to_string()]);
    }
    identity(launch, &mut all);
    limits(launch, &mut all);
    all.add_if(launch.read_only_root, "--read-only");
    all.add_if(launch.stdin, "--interactive");
    all.add_if(launch.tty, "--tty");
    // The image was pulled before, so that a failed pull is not reported as a failed create.
    all.add(&["--pull", "never"]);
    let args = match launch.argv.split_first() {
        Some((program, args)) if !launch.image_program => {
            all.add(&["--entrypoint", program]);
            args
        }
        _ => &launch.argv,
    };
    all.add(&[&launch.image]);
    all.0.extend_from_slice(args);
    all.0
}

fn identity(launch: &ContainerConfig, all: &mut Args) {
    let user = &launch.user;
    let user_and_group = match (user.uid, user.gid) {
        (Some(uid), Some(gid)) => Some(format!("{uid}:{gid}")),
        (Some(uid), None) => Some(uid.to_string()),
        (None, Some(gid)) => Some(format!(":{gid}")),
        (None, None) => None,
    };
    if let Some(user_and_group) = user_and_group {
        all.add(&["--user", &user_and_group]);
    }
    for group in &user.groups {
        all.add(&["--group-add", &group.to_string()]);
    }
}

fn limits(launch: &ContainerConfig, all: &mut Args) {
    let limits = &launch.limits;
    if let Some(bytes) = limits.memory_bytes {
        all.add(&["--memory", &bytes.to_string()]);
    }
    if let Some(millis) = limits.cpu_millis {
        all.add(&["--cpus", &format!("{}.{:03}", millis / 1000, millis % 1000)]);
    }
    all.add(&["--pids-limit", &limits.processes.to_string()]);
}

/// A `--mount` value: comma-separated fields, quoted as CSV.
fn mount(it: &Mount) -> String {
    let field = |name: &str, path: &Path| {
        let text = format!("{name}={}", path.display());
        match text.contains([',', '"']) {
            true => format!("\"{}\"", text.replace('"', "\"\"")),
            false => text,
        }
    };
    let end = if it.read_only { ",readonly" } else { "" };
    format!("type=bind,{},{}{end}", field("source", &it.source), field("target", &it.target))
}

/// `start` in the foreground.
#[must_use]
pub fn start(engine: ContainerEngine, name: &str, stdin: bool) -> Vec<String> {
    let mut all = Args::of(&[engine.program(), "start", "--attach"]);
    all.add_if(stdin, "--interactive");
    all.add(&[name]);
    all.0
}

/// `exec` in a running container.
#[must_use]
pub fn exec(engine: ContainerEngine, name: &str, argv: &[String], stdin: bool, tty: bool) -> Vec<String> {
    let mut all = Args::of(&[engine.program(), "exec"]);
    all.add_if(stdin, "--interactive");
    all.add_if(tty, "--tty");
    all.add(&[name]);
    all.0.extend_from_slice(argv);
    all.0
}

/// `image inspect`: whether the image is present.
#[must_use]
pub fn inspect_image(image: &str) -> Vec<String> {
    Args::of(&["image", "inspect", "--format", "{{.Id}}", image]).0
}

#[must_use]
pub fn pull(image: &str) -> Vec<String> {
    Args::of(&["pull", "--quiet", image]).0
}

/// `inspect` of a container; see [`parse_inspect`].
#[must_use]
pub fn inspect(name: &str) -> Vec<String> {
    Args::of(&["inspect", "--type", "container", "--format", FORMAT, name]).0
}

/// Parses the output of [`inspect`].
#[must_use]
pub fn parse_inspect(text: &str) -> Option<EngineContainerState> {
    let mut words = text.split_whitespace();
    let mut flag = || words.next()?.parse::<bool>().ok();
    let (runs, out_of_memory) = (flag()?, flag()?);
    Some(EngineContainerState { runs, out_of_memory, ran: !words.next()?.starts_with(NEVER) })
}

#[must_use]
pub fn kill(name: &str, signal: i32) -> Vec<String> {
    Args::of(&["kill", "--signal", &signal.to_string(), name]).0
}

/// `rm` with the anonymous volumes of the image.
#[must_use]
pub fn remove(name: &str) -> Vec<String> {
    Args::of(&["rm", "--force", "--volumes", name]).0
}

struct Args(Vec<String>);

impl Args {
    fn of(words: &[&str]) -> Args {
        Args(words.iter().map(|it| (*it).to_owned()).collect())
    }

    fn add(&mut self, words: &[&str]) {
        self.0.extend(words.iter().map(|it| (*it).to_owned()));
    }

    fn add_if(&mut self, wanted: bool, word: &str) {
        if wanted {
            self.add(&[word]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container_config::{ResourceLimits, RunAs};

    fn made(change: impl FnOnce(&mut ContainerConfig)) -> String {
        let orders = crate::testing::orders(change);
        create(&orders.launch, "muster-pod-main-0", Path::new("/run/message")).join(" ")
    }

    #[test]
    fn a_plain_container() {
        assert_eq!(
            made(|_| ()),
            "create --name muster-pod-main-0 --network host --hostname pod --security-opt label=disable \
             --mount type=bind,source=/etc/hosts,target=/etc/hosts \
             --mount type=bind,source=/run/message,target=/dev/termination-log \
             --pids-limit 64 --pull never --entrypoint true image"
        );
    }

    #[test]
    fn container_config_becomes_engine_options() {
        type Change = fn(&mut ContainerConfig);
        let cases: &[(&str, Change, &str)] = &[
            (
                "a program and arguments",
                |it| it.argv = vec!["sh".into(), "-c".into(), "x".into()],
                " --entrypoint sh image -c x",
            ),
            (
                "the image's program, with arguments",
                |it| (it.image_program, it.argv) = (true, vec!["a".into()]),
                "--pull never image a",
            ),
            (
                "the image's program and arguments",
                |it| (it.image_program, it.argv) = (true, Vec::new()),
                "--pull never image",
            ),
            (
                "volumes come first",
                |it| it.mounts = vec![Mount { source: "/s".into(), target: "/t".into(), read_only: true }],
                " label=disable --mount type=bind,source=/s,target=/t,readonly --mount ",
            ),
            (
                "a comma in a path",
                |it| it.mounts = vec![Mount { source: "/a,b".into(), target: "/t".into(), read_only: false }],
                " --mount type=bind,\"source=/a,b\",target=/t ",
            ),
            (
                "a volume in place of the hosts file",
                |it| {
                    let target = "/etc/hosts".into();
                    it.mounts = vec![Mount { source: "/mine".into(), target, read_only: false }];
                },
                " label=disable --mount type=bind,source=/mine,target=/etc/hosts --mount type=bind,source=/run/message",
            ),
            (
                "variables",
                |it| it.env = vec![("A".into(), "1 2".into()), ("B".into(), "x=y".into())],
                " --env A=1 2 --env B=x=y ",
            ),
            ("a folder to start in", |it| it.dir = Some("/w".into()), " --workdir /w "),
            (
                "somebody else",
                |it| it.user = RunAs { uid: Some(5), gid: Some(6), groups: vec![7, 8] },
                " --user 5:6 --group-add 7 --group-add 8 ",
            ),
            ("only a user", |it| it.user.uid = Some(5), " --user 5 "),
            ("only a group", |it| it.user.gid = Some(6), " --user :6 "),
            (
                "limits",
                |it| {
                    it.limits =
                        ResourceLimits { cpu_millis: Some(1250), memory_bytes: Some(4096), processes: 9 };
                },
                " --memory 4096 --cpus 1.250 --pids-limit 9 ",
            ),
            ("a part of a core", |it| it.limits.cpu_millis = Some(50), " --cpus 0.050 "),
            ("a root that is only read", |it| it.read_only_root = true, " --read-only "),
            ("input and a terminal", |it| (it.stdin, it.tty) = (true, true), " --interactive --tty --pull "),
        ];
        for (says, change, want) in cases {
            let told = made(*change);
            assert!(format!("{told} ").contains(&format!("{want} ")[..want.len()]), "{says}: {told}");
            assert!(
                want.ends_with(' ') || want.contains("source=/run") || told.ends_with(want),
                "{says}: {told}"
            );
        }
    }

    #[test]
    fn exec_and_start() {
        let argv = ["sh".to_owned(), "-c".to_owned()];
        assert_eq!(exec(ContainerEngine::Docker, "n", &argv, false, false).join(" "), "docker exec n sh -c");
        assert_eq!(
            exec(ContainerEngine::Podman, "n", &argv, true, true).join(" "),
            "podman exec --interactive --tty n sh -c"
        );
        assert_eq!(start(ContainerEngine::Docker, "n", false).join(" "), "docker start --attach n");
        assert_eq!(
            start(ContainerEngine::Podman, "n", true).join(" "),
            "podman start --attach --interactive n"
        );
    }

    #[test]
    fn inspect_output() {
        let seen_as = |runs, out_of_memory, ran| Some(EngineContainerState { runs, ran, out_of_memory });
        let cases = [
            ("docker, running", "true false 2026-01-02T03:04:05Z\n", seen_as(true, false, true)),
            ("podman, running", "true false 2026-01-02 03:04:05.6 +0000 UTC\n", seen_as(true, false, true)),
            ("docker, never", "false false 0001-01-01T00:00:00Z", seen_as(false, false, false)),
            ("podman, never", "false false 0001-01-01 00:00:00 +0000 UTC", seen_as(false, false, false)),
            ("out of memory", "false true 2026-01-02T03:04:05Z", seen_as(false, true, true)),
            ("something else", "[]", None),
            ("nothing", "", None),
        ];
        for (says, text, want) in cases {
            assert_eq!(parse_inspect(text), want, "{says}");
        }
    }
}
