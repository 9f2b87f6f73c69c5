//! Adoption after a restart of the server, and lost supervisors.

use muster_process::{ContainerRuntime, ExitReason, RunState};

use crate::world::{BOTH, World, eventually, processes_with, word};

#[test]
fn a_restarted_server_restores_all_runs() {
    for isolation in BOTH {
        let world = World::new(isolation);
        let done = world.start(&world.sh("done", "exit 4"));
        world.ended(&done);
        let long = world
            .start(&world.sh("long", "echo ready; while [ ! -e /tmp/../dev/null/x ]; do sleep 0.05; done"));
        world.running(&long);
        let dir = world.leave();

        let world = World::over(dir, isolation);
        assert_eq!(world.processes.list_runs(), [done.clone(), long.clone()]);
        assert_eq!(world.ended(&done).code, 4);
        assert!(matches!(world.processes.state(&long), Some(RunState::Running { .. })));
        world.processes.signal(&long, 15);
        assert_eq!(world.ended(&long).signal, Some(15), "it rings for adopted ones too");
        let dir = world.leave();

        let world = World::over(dir, isolation);
        assert_eq!(world.ended(&long).signal, Some(15));
    }
}

#[test]
fn a_killed_supervisor_leaves_no_process() {
    for isolation in BOTH {
        let world = World::new(isolation);
        let mark = word("lost");
        let script = format!(
            "setsid sh -c 'while :; do sleep 0.05; done # {mark}' & while :; do sleep 0.05; done # {mark}"
        );
        let id = world.start(&world.sh("lost", &script));
        world.running(&id);
        eventually("both run", || processes_with(&mark).len() >= 2);
        kill_9(supervisor(&world));
        let ended = world.ended(&id);
        assert_eq!((ended.code, ended.why), (137, ExitReason::Lost), "{ended:?}");
        assert!(ended.since_micros.is_some());
        eventually("nothing is left", || processes_with(&mark).is_empty());
        let world = World::over(world.leave(), isolation);
        assert_eq!(world.ended(&id), ended, "the next server tells the same");
    }
}

#[test]
fn a_run_lost_while_no_server_ran() {
    for isolation in BOTH {
        let world = World::new(isolation);
        let mark = word("unseen");
        let script = format!(
            "(setsid sh -c 'while :; do sleep 0.05; done # {mark}' &); while :; do sleep 0.05; done # {mark}"
        );
        let id = world.start(&world.sh("unseen", &script));
        world.running(&id);
        eventually("both run", || processes_with(&mark).len() >= 2);
        let (supervisor, first) = (supervisor(&world), first(&world));
        let dir = world.leave();
        // Both are killed, so no process cleans up. Stopped first, so that init cannot react to the supervisor's
        // exit.
        signal(first, "STOP");
        kill_9(supervisor);
        kill_9(first);
        let world = World::over(dir, isolation);
        assert_eq!(world.ended(&id).why, ExitReason::Lost);
        eventually("nothing is left", || processes_with(&mark).is_empty());
    }
}

fn supervisor(world: &World) -> i32 {
    one_with(world, "__supervise")
}

fn first(world: &World) -> i32 {
    one_with(world, "__inside")
}

fn one_with(world: &World, word: &str) -> i32 {
    let ours = processes_with(&world.dir.path().display().to_string());
    let all: Vec<i32> = processes_with(word).into_iter().filter(|pid| ours.contains(pid)).collect();
    assert_eq!(all.len(), 1, "{word}: {all:?}");
    all[0]
}

fn kill_9(pid: i32) {
    signal(pid, "KILL");
}

fn signal(pid: i32, name: &str) {
    let done =
        std::process::Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().unwrap();
    assert!(done.success());
}
