//! Starts and exits of containers.

use std::path::PathBuf;

use muster_process::{ContainerRuntime, ExitReason, Isolation, RunId, RunState};

use crate::world::{BOTH, World, eventually, processes_with, word};

const TERM: i32 = 15;
const KILL: i32 = 9;

#[test]
fn exit_codes_and_reasons() {
    let cases = [
        ("well", "exit 0", (0, None)),
        ("with a code", "exit 7", (7, None)),
        ("by a signal", "kill -TERM $$", (143, Some(TERM))),
        ("by itself, with children left", "sleep 1000 & exit 3", (3, None)),
    ];
    for isolation in BOTH {
        let world = World::new(isolation);
        for (at, (says, script, want)) in cases.into_iter().enumerate() {
            let (ended, log) = world.run(&world.sh(&format!("ends{at}"), script));
            assert_eq!(
                (ended.code, ended.signal, ended.why),
                (want.0, want.1, ExitReason::Exited),
                "{says}: {ended:?} {log}"
            );
            assert!(ended.since_micros.is_some_and(|since| since <= ended.until_micros), "{says}");
        }
    }
}

#[test]
fn a_command_that_cannot_run_says_what_to_do() {
    let cases: [(&str, &[&str], &[&str]); 4] = [
        ("not there", &["no-such-program", "x"], &["no-such-program", "PATH=", "install it"]),
        ("a path that leads nowhere", &["/no/such/program"], &["/no/such/program", "images are not pulled"]),
        ("not executable", &["/etc/passwd"], &["/etc/passwd", "chmod +x"]),
        ("a folder", &["/usr"], &["folder"]),
    ];
    for isolation in BOTH {
        let world = World::new(isolation);
        for (at, (says, argv, words)) in cases.iter().enumerate() {
            let (ended, _) = world.run(&world.launch(&format!("cannot{at}"), argv));
            assert_eq!(
                (ended.code, ended.why, ended.since_micros),
                (128, ExitReason::NotStarted, None),
                "{says}"
            );
            for word in *words {
                assert!(ended.message.contains(word), "{says}: {}", ended.message);
            }
        }
    }
}

#[test]
fn environment_and_working_directory() {
    for isolation in BOTH {
        let world = World::new(isolation);
        let mut launch = world.sh("env", "env; pwd");
        launch.env = vec![("A".into(), "one two".into()), ("PATH".into(), "/usr/bin:/bin".into())];
        launch.dir = Some(PathBuf::from("/usr"));
        let (ended, log) = world.run(&launch);
        assert_eq!(ended.code, 0, "{log}");
        assert!(
            log.contains("A=one two\n") && log.contains("PATH=/usr/bin:/bin\n") && log.contains("HOME="),
            "{log}"
        );
        assert!(!log.contains("CARGO_"), "nothing of the server's: {log}");
        assert!(log.ends_with("/usr\n"), "{log}");
    }
}

#[test]
fn signals_go_to_the_command() {
    for isolation in BOTH {
        let world = World::new(isolation);
        let polite =
            world.sh("polite", "trap 'echo bye; exit 5' TERM; echo ready; while :; do sleep 0.02; done");
        let id = world.start(&polite);
        world.says(&id, "ready");
        world.running(&id);
        world.processes.signal(&id, TERM);
        assert_eq!(world.ended(&id).code, 5);
        assert!(world.text(&id).contains("bye"));

        let plain = world.launch("plain", &["sleep", "1000"]);
        let id = world.start(&plain);
        world.processes.signal(&id, TERM);
        assert_eq!(world.ended(&id).signal, Some(TERM), "also when it comes before it runs; it is no `init`");
    }
}

#[test]
fn kill_ends_a_process_tree_that_ignores_signals() {
    for isolation in BOTH {
        let world = World::new(isolation);
        let mark = word("stubborn");
        let script = format!(
            "trap '' TERM; setsid sh -c 'trap \"\" TERM; while :; do sleep 0.05; done # {mark}' & \
             (sh -c 'while :; do sleep 0.05; done # {mark}' &) ; echo ready; while :; do sleep 0.05; done # {mark}"
        );
        let id = world.start(&world.sh("stubborn", &script));
        world.says(&id, "ready");
        world.running(&id);
        eventually("all three run", || processes_with(&mark).len() >= 3);
        world.processes.signal(&id, TERM);
        std::thread::sleep(std::time::Duration::from_millis(100));
        assert!(matches!(world.processes.state(&id), Some(RunState::Running { .. })));
        world.processes.kill(&id);
        let ended = world.ended(&id);
        assert_eq!((ended.code, ended.signal, ended.why), (137, Some(KILL), ExitReason::Exited));
        assert_eq!(processes_with(&mark), Vec::<i32>::new(), "{isolation:?}");
    }
}

#[test]
fn killed_while_it_starts() {
    for isolation in BOTH {
        let world = World::new(isolation);
        for at in 0..10 {
            let id = world.start(&world.launch(&format!("early{at}"), &["sleep", "1000"]));
            std::thread::sleep(std::time::Duration::from_millis(at));
            world.processes.kill(&id);
            let ended = world.ended(&id);
            assert_eq!((ended.code, ended.why), (137, ExitReason::Exited), "{ended:?}");
        }
    }
}

#[test]
fn a_run_is_started_at_most_once() {
    let world = World::new(Isolation::None);
    let launch = world.sh("once", "exit 0");
    world.run(&launch);
    assert!(world.processes.start(&launch).is_err());
    let mut empty = world.launch("empty", &[]);
    assert!(world.processes.start(&empty).unwrap_err().contains("command"), "nothing to run");
    empty.argv = vec!["true".into()];
    assert_eq!(world.run(&empty).0.code, 0, "a refusal leaves nothing behind");
}

#[test]
fn directories_are_removed_on_request() {
    for isolation in BOTH {
        let world = World::new(isolation);
        let launch = world
            .sh("gone", "cd $MUSTER_POD_ROOT/tmp; mkdir -p a/b; echo x > a/b/c; chmod 555 a/b a; sleep 1000");
        let id = world.start(&launch);
        world.running(&id);
        assert!(world.processes.remove_pod(&id.pod).is_err(), "it runs");
        assert!(world.processes.remove_run(&id).is_err(), "it runs");
        world.processes.kill(&id);
        world.ended(&id);
        let again = muster_process::ContainerConfig {
            id: RunId { attempt: 1, ..id.clone() },
            argv: vec!["true".into()],
            ..launch
        };
        world.run(&again);
        world.processes.remove_run(&id).unwrap();
        assert_eq!(world.processes.list_runs(), std::slice::from_ref(&again.id));
        world.processes.remove_pod(&id.pod).unwrap();
        assert!(!world.layout().pod(&id.pod).exists());
        assert_eq!(world.processes.list_runs(), []);
        world.processes.remove_pod(&id.pod).unwrap();
    }
}

#[test]
fn termination_messages() {
    for isolation in BOTH {
        let world = World::new(isolation);
        let place = if isolation == Isolation::None {
            "$MUSTER_POD_ROOT/dev/termination-log"
        } else {
            "/dev/termination-log"
        };
        let (ended, _) = world.run(&world.sh("words", &format!("echo -n because > {place}; exit 1")));
        assert_eq!(ended.message, "because");
        let mut launch = world.sh("fallback", "echo one; echo two >&2; exit 1");
        launch.message_from_log = true;
        assert_eq!(sorted(&world.run(&launch).0.message), "one\ntwo");
        let mut launch = world.sh("fine", "echo one; exit 0");
        launch.message_from_log = true;
        assert_eq!(world.run(&launch).0.message, "", "only for those that fail");
        let (ended, _) = world.run(&world.sh("many", &format!("yes word | head -c 10000 > {place}")));
        assert_eq!(ended.message.len(), 4096);
    }
}

#[test]
fn a_termination_message_path_that_is_no_file_is_ignored() {
    let world = World::new(Isolation::None);
    let at = world.layout().run(&world.sh("pipe", "").id).join("message");
    let script = format!("rm {0} && mkfifo {0} && exit 3", at.display());
    let (ended, log) = world.run(&world.sh("pipe", &script));
    assert_eq!((ended.code, ended.message.as_str()), (3, ""), "{log}");
    world.processes.remove_pod("uid-pipe").unwrap();
}

#[test]
fn partial_lines_are_flushed() {
    let world = World::new(Isolation::None);
    let id = world.start(&world.sh("progress", "while :; do printf .; sleep 0.01; done"));
    world.says(&id, "...");
    world.processes.kill(&id);
    world.ended(&id);
}

#[test]
fn inherited_descriptors_do_not_reach_the_container() {
    // Safe Rust cannot clear close-on-exec: a shell in between leaks the descriptor.
    let program =
        std::env::var("MUSTER_HIDDEN").unwrap_or_else(|_| env!("CARGO_BIN_EXE_muster-hidden").into());
    let dir = tempfile::tempdir().unwrap();
    let fake = dir.path().join("leaky");
    std::fs::write(&fake, format!("#!/bin/sh\nexec 7</dev/null\nexec {program} \"$@\"\n")).unwrap();
    let open: std::fs::Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&fake, open).unwrap();
    for isolation in BOTH {
        let world = World::with_program(tempfile::tempdir().unwrap(), isolation, fake.clone());
        let (ended, log) = world.run(&world.sh("files", "test ! -e /proc/self/fd/7 && echo closed"));
        assert_eq!((ended.code, log.as_str()), (0, "closed\n"), "{isolation:?} {ended:?}");
    }
}

fn sorted(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines.join("\n")
}
