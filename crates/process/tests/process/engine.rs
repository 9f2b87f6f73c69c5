//! The runtime over a container engine. The image contains only the host's static busybox; if no engine answers, or
//! it cannot run containers here, the reason is printed and nothing is tested.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::OnceLock;

use muster_process::{
    ContainerConfig, ContainerEngine, ContainerRuntime, ExecOptions, ExitReason, Isolation, Mount, RunState,
};

use crate::world::{World, eventually, processes_with, word};

const IMAGE: &str = "localhost/muster-engine-test:1";
const BUSYBOX: [&str; 3] = ["/bin/busybox", "/usr/bin/busybox", "/usr/local/bin/busybox"];
const TOOLS: [&str; 9] = ["sh", "cat", "echo", "sleep", "id", "hostname", "env", "touch", "dd"];

fn call(engine: ContainerEngine, args: &[&str]) -> Output {
    Command::new(engine.program()).args(args).output().unwrap()
}

/// An engine that answers and can run a container of our image.
fn engine() -> Option<ContainerEngine> {
    static FOUND: OnceLock<Option<ContainerEngine>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        [ContainerEngine::Podman, ContainerEngine::Docker].into_iter().find(|engine| match tried(*engine) {
            Ok(()) => true,
            Err(why) => {
                eprintln!("not tested with {}: {why}", engine.program());
                false
            }
        })
    })
}

fn tried(engine: ContainerEngine) -> Result<(), String> {
    engine.version()?;
    let busybox = BUSYBOX.iter().find(|path| Path::new(path).exists());
    let busybox = busybox.ok_or("no busybox to make an image from: install busybox-static")?;
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    for name in ["bin", "etc", "tmp"] {
        fs::create_dir_all(root.join(name)).unwrap();
    }
    fs::copy(busybox, root.join("bin/busybox")).unwrap();
    for tool in TOOLS {
        std::os::unix::fs::symlink("busybox", root.join("bin").join(tool)).unwrap();
    }
    let archive = folder.path().join("root.tar");
    let (archive, root) = (archive.display().to_string(), root.display().to_string());
    assert!(Command::new("tar").args(["-C", &root, "-cf", &archive, "."]).status().unwrap().success());
    let entry = "ENTRYPOINT [\"/bin/echo\", \"of the image:\"]";
    let args = ["import", "--change", entry, "--change", "CMD [\"nothing\"]", &archive, IMAGE];
    for args in [&args[..], &["run", "--rm", "--network", "host", IMAGE, "hello"]] {
        let done = call(engine, args);
        if !done.status.success() {
            return Err(format!("{args:?}: {}", String::from_utf8_lossy(&done.stderr)));
        }
    }
    Ok(())
}

fn world() -> Option<(World, ContainerEngine)> {
    let engine = engine()?;
    Some((World::new(Isolation::None).with_engine(engine), engine))
}

fn launch(world: &World, name: &str, script: &str) -> ContainerConfig {
    let mut launch = ContainerConfig { image: IMAGE.into(), ..world.sh(&word(name), script) };
    launch.env.push(("WORD".into(), "two words".into()));
    launch
}

fn is_gone(engine: ContainerEngine, launch: &ContainerConfig) -> bool {
    !call(engine, &["inspect", "--type", "container", &container(launch)]).status.success()
}

fn container(launch: &ContainerConfig) -> String {
    format!("muster-{}-{}-{}", launch.id.pod, launch.id.container, launch.id.attempt)
}

#[test]
fn a_container_of_an_image() {
    let Some((world, engine)) = world() else { return };
    let volume = world.dir.path().join("volume");
    fs::create_dir(&volume).unwrap();
    fs::write(volume.join("file"), "of the volume\n").unwrap();
    let script = "hostname; cat /data/file /etc/hosts; echo \"$WORD\"; id -u; id -g; touch /data/x || echo refused; \
                  touch /x || echo closed; echo oops >&2; echo last > /dev/termination-log; exit 7";
    let mut launch = launch(&world, "whole", script);
    launch.mounts = vec![Mount { source: volume, target: "/data".into(), read_only: true }];
    launch.user = muster_process::RunAs { uid: Some(1234), gid: Some(77), groups: Vec::new() };
    launch.read_only_root = true;
    let (ended, text) = world.run(&launch);
    assert_eq!((ended.code, ended.why, ended.message.as_str()), (7, ExitReason::Exited, "last\n"), "{text}");
    assert!(ended.since_micros.is_some());
    for line in [
        "my-pod",
        "of the volume",
        "127.9.9.9 my-pod",
        "two words",
        "1234",
        "77",
        "refused",
        "closed",
        "oops",
    ] {
        assert!(text.lines().any(|it| it == line), "{line}: {text}");
    }
    assert!(is_gone(engine, &launch), "removed when it is over");
}

#[test]
fn image_entrypoint_runs_without_command() {
    let Some((world, _)) = world() else { return };
    for (name, args, want) in
        [("none", vec![], "of the image: nothing\n"), ("args", vec!["a".to_owned()], "of the image: a\n")]
    {
        let launch = ContainerConfig { argv: args, image_program: true, ..launch(&world, name, "") };
        let (ended, text) = world.run(&launch);
        assert_eq!((ended.code, text.as_str()), (0, want), "{ended:?}");
    }
}

#[test]
fn start_failures_are_reported() {
    let Some((world, engine)) = world() else { return };
    let absent =
        ContainerConfig { image: "localhost/muster-not-there:1".into(), ..launch(&world, "absent", "true") };
    let pulled = ContainerConfig { pull: muster_process::ImagePullPolicy::Missing, ..absent.clone() };
    let pulled = ContainerConfig { id: launch(&world, "pulled", "true").id, ..pulled };
    let program = ContainerConfig { argv: vec!["/no/such/program".into()], ..launch(&world, "program", "") };
    for (launch, why, words) in [
        (absent, ExitReason::ImageAbsent, "is not present with pull policy of Never"),
        (pulled, ExitReason::ImageNotPulled, "muster-not-there"),
        (program, ExitReason::NotStarted, "/no/such/program"),
    ] {
        let (ended, _) = world.run(&launch);
        assert_eq!((ended.why, ended.code, ended.since_micros), (why, 128, None), "{ended:?}");
        assert!(ended.message.contains(words), "{ended:?}");
        assert!(is_gone(engine, &launch));
    }
    let (ended, _) = world.run(&launch(&world, "code", "echo Error: mine >&2; exit 127"));
    assert_eq!((ended.why, ended.code), (ExitReason::Exited, 127), "a code of the command's own: {ended:?}");
}

const PATIENT: &str = "trap 'echo asked; exit 3' TERM; echo ready; while :; do sleep 0.1; done";

#[test]
fn stop_signal_and_kill() {
    let Some((world, engine)) = world() else { return };
    let asked = launch(&world, "asked", PATIENT);
    let id = world.start(&asked);
    world.says(&id, "ready");
    world.running(&id);
    world.processes.signal(&id, 15);
    let ended = world.ended(&id);
    assert_eq!((ended.code, ended.why), (3, ExitReason::Exited), "{ended:?}");
    assert!(world.text(&id).contains("asked"));

    let made = launch(&world, "made", "trap '' TERM; echo ready; while :; do sleep 0.1; done");
    let id = world.start(&made);
    world.running(&id);
    world.processes.kill(&id);
    assert_eq!(world.ended(&id).code, 137);
    assert!(is_gone(engine, &asked) && is_gone(engine, &made));

    let early = launch(&world, "early", PATIENT);
    let id = world.start(&early);
    world.processes.kill(&id);
    let ended = world.ended(&id);
    assert_eq!((ended.code, ended.since_micros), (137, None), "{ended:?}");
    assert!(is_gone(engine, &early), "before it began");
}

#[test]
fn stdin_and_exec() {
    let Some((world, _)) = world() else { return };
    let mut launch = launch(&world, "beside", "while read line; do echo got $line; done; echo over");
    (launch.stdin, launch.stdin_once) = (true, true);
    let id = world.start(&launch);
    world.running(&id);
    let exec = |argv: &[&str], stdin: bool| {
        let argv = argv.iter().map(|it| (*it).to_owned()).collect();
        world.processes.exec(&id, &ExecOptions { argv, stdin, tty: false }).unwrap()
    };
    let mut beside = exec(&["sh", "-c", "echo $WORD; cat; exit 5"], true);
    std::io::Write::write_all(&mut beside.stdin.take().unwrap(), b"typed\n").unwrap();
    let text = std::io::read_to_string(beside.stdout.take().unwrap()).unwrap();
    assert_eq!((text.as_str(), beside.process.wait().unwrap()), ("two words\ntyped\n", 5));
    assert_ne!(exec(&["no-such-program"], false).process.wait().unwrap(), 0);

    let mut input = world.processes.attach(&id, true).unwrap().stdin.unwrap();
    std::io::Write::write_all(&mut input, b"one\n").unwrap();
    world.says(&id, "got one");
    drop(input);
    assert_eq!(world.ended(&id).code, 0);
    assert!(world.text(&id).contains("over"));
}

#[test]
fn a_restarted_server_adopts_containers() {
    let Some((world, engine)) = world() else { return };
    let long = launch(&world, "long", PATIENT);
    let id = world.start(&long);
    world.says(&id, "ready");
    world.running(&id);
    let world = World::over(world.leave(), Isolation::None);
    assert!(matches!(world.processes.state(&id), Some(RunState::Running { .. })));
    world.processes.signal(&id, 15);
    assert_eq!(world.ended(&id).code, 3, "also a server that has no engine");
    assert!(is_gone(engine, &long));
}

#[test]
fn a_killed_supervisor_leaves_no_container() {
    let Some((world, engine)) = world() else { return };
    for (name, words) in [("lost", &["__supervise"][..]), ("both", &["__inside", "__supervise"])] {
        let launch = launch(&world, name, PATIENT);
        let id = world.start(&launch);
        world.running(&id);
        let ours = processes_with(&launch.pod_name);
        let named = |word: &str| -> Vec<i32> {
            processes_with(word).into_iter().filter(|pid| ours.contains(pid)).collect()
        };
        let pids: Vec<String> =
            words.iter().flat_map(|word| named(word)).map(|pid| pid.to_string()).collect();
        assert_eq!(pids.len(), words.len());
        assert!(
            Command::new("kill").arg("-STOP").args(&pids[..pids.len() - 1]).arg(&pids[0]).status().is_ok()
        );
        assert!(Command::new("kill").arg("-KILL").args(&pids).status().unwrap().success());
        let ended = world.ended(&id);
        assert_eq!(ended.why, ExitReason::Lost, "{name}: {ended:?}");
        eventually(&format!("{name}: nothing is left"), || is_gone(engine, &launch));
    }
}

#[test]
fn exceeding_the_memory_limit() {
    let Some((world, _)) = world() else { return };
    let mut launch = launch(&world, "memory", "exec dd if=/dev/zero of=/dev/null bs=200M count=1");
    launch.limits.memory_bytes = Some(32 * 1024 * 1024);
    let (ended, text) = world.run(&launch);
    // Not every engine reports OOM kills on every host.
    assert_eq!(ended.code, 137, "{ended:?} {text}");
    assert!(matches!(ended.why, ExitReason::OutOfMemory | ExitReason::Exited), "{ended:?}");
}
