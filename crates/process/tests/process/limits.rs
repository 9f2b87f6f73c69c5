//! Containers that exceed their limits. Every bomb here stops by itself.

use muster_process::logs::LogRotation;
use muster_process::{ContainerRuntime, ExitReason, Isolation};

use crate::world::{BOTH, World, processes_with, word};

#[test]
fn a_fork_bomb_is_killed() {
    for isolation in BOTH {
        let world = World::new(isolation);
        let mark = word("bomb");
        // 300 processes that end after ten seconds at the latest.
        let script = format!(
            "i=0; while [ $i -lt 300 ]; do sh -c 'sleep 10; : {mark}' & i=$((i+1)); done; sleep 10; exit 0"
        );
        let mut launch = world.sh("bomb", &script);
        launch.limits.processes = 64;
        let (ended, log) = world.run(&launch);
        // A cgroup fails the fork above the limit and the shell gives up. Without one the watchdog kills all.
        let was_refused = log.contains("Cannot fork") && ended.code != 0;
        let was_ended = (ended.code, ended.signal, ended.why) == (137, Some(9), ExitReason::TooManyProcesses);
        assert!(was_refused || was_ended, "{isolation:?} {ended:?} {log}");
        assert_eq!(processes_with(&mark), Vec::<i32>::new(), "{isolation:?}");
        assert_eq!(world.run(&world.sh("after", "exit 0")).0.code, 0, "life goes on");
    }
}

#[test]
fn threads_count() {
    let python = "/usr/bin/python3";
    if !std::path::Path::new(python).exists() {
        eprintln!("skipped: no {python} on this machine");
        return;
    }
    let world = World::new(Isolation::Namespaces);
    let program = "import threading, time\nfor i in range(100): threading.Thread(target=time.sleep, args=(10,), daemon=True).start()\ntime.sleep(10)";
    let mut launch = world.launch("threads", &[python, "-c", program]);
    launch.limits.processes = 32;
    assert_eq!(world.run(&launch).0.why, ExitReason::TooManyProcesses);
}

#[test]
fn too_much_memory() {
    for isolation in BOTH {
        let world = World::new(isolation);
        // `tail` buffers input without a newline: 200 MB, in one of two processes.
        let mut launch = world.sh("memory", "head -c 200000000 /dev/zero | tail | sleep 10");
        launch.limits.memory_bytes = Some(64 * 1024 * 1024);
        let (ended, _) = world.run(&launch);
        assert_eq!(
            (ended.code, ended.signal, ended.why),
            (137, Some(9), ExitReason::OutOfMemory),
            "{isolation:?}"
        );
        let mut launch = world.sh("modest", "head -c 10000000 /dev/zero | tail > /dev/null");
        launch.limits.memory_bytes = Some(64 * 1024 * 1024);
        assert_eq!(world.run(&launch).0.code, 0);
    }
}

#[test]
fn endless_output_is_bounded() {
    let world = World::new(Isolation::Namespaces)
        .with_log_bounds(LogRotation { file_bytes_max: 100_000, files_max: 3 });
    let (ended, log) = world.run(&world.sh("talk", "yes 'all work and no play' | head -n 200000; echo done"));
    assert_eq!(ended.code, 0);
    assert!(log.ends_with("done\n") && log.len() < 400_000, "{}", log.len());
}

#[test]
fn unavailable_features_are_reported() {
    let world = World::new(Isolation::None);
    let applied = world.processes.isolation_features();
    let missing = |what: &str| applied.iter().find(|it| it.name == what).and_then(|it| it.missing.clone());
    assert!(missing("namespaces").is_some_and(|why| why.contains("--isolation none")));
    let world = World::new(Isolation::Namespaces);
    for it in world.processes.isolation_features() {
        eprintln!("{}: {}", it.name, it.missing.as_deref().unwrap_or("applied"));
    }
    assert_eq!(world.processes.isolation_features()[0].missing, None, "these tests need namespaces");
}

#[test]
fn usage_is_measured_while_it_runs() {
    for isolation in BOTH {
        let world = World::new(isolation);
        let id = world.start(&world.sh("busy", "while :; do :; done"));
        world.running(&id);
        let used = || world.processes.usage(&id).unwrap_or_else(|| panic!("{isolation:?}: it runs"));
        let begun = used();
        // On a busy host it may get little CPU time; it gets some within this many polls.
        let grew = (0..1_000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            used().cpu > begun.cpu
        });
        assert!(grew, "{isolation:?}: {:?}", used());
        assert!(used().memory_bytes > 0, "{isolation:?}");
        world.processes.kill(&id);
        world.ended(&id);
        assert_eq!(world.processes.usage(&id), None, "{isolation:?}: what has ended uses nothing");
    }
}
