//! Exec and attach.

use std::fs::File;
use std::io::{Read, Write};

use muster_process::{ContainerRuntime, ExecOptions, ExecSession, ExitReason, Isolation, LogReader, RunId};

use crate::world::{BOTH, World, eventually, processes_with, word};

fn options(argv: &[&str]) -> ExecOptions {
    ExecOptions { argv: argv.iter().map(|it| (*it).to_owned()).collect(), ..ExecOptions::default() }
}

fn drain(file: Option<File>) -> String {
    let mut all = Vec::new();
    let mut block = [0; 4096];
    let mut file = file.expect("it was asked for");
    // A terminal returns EIO after its other end is closed.
    while let Ok(read) = file.read(&mut block) {
        if read == 0 {
            break;
        }
        all.extend_from_slice(&block[..read]);
    }
    String::from_utf8_lossy(&all).into_owned()
}

fn finish(mut exec: ExecSession) -> (i32, String, String) {
    drop(exec.stdin.take());
    let stderr = exec.stderr.take().map(|file| std::thread::spawn(move || drain(Some(file))));
    let stdout = drain(exec.stdout.take());
    let stderr = stderr.map_or(String::new(), |it| it.join().unwrap());
    (exec.process.wait().unwrap(), stdout, stderr)
}

fn sleeper(world: &World, name: &str) -> RunId {
    let mut launch =
        world.sh(name, "echo mine > $MUSTER_POD_ROOT/tmp/mine; echo ready; while :; do sleep 0.05; done");
    launch.env.push(("COLOUR".into(), "blue".into()));
    let id = world.start(&launch);
    world.says(&id, "ready");
    world.running(&id);
    id
}

#[test]
fn exec_runs_in_the_container() {
    for isolation in BOTH {
        let world = World::new(isolation);
        let id = sleeper(&world, "beside");
        let script = "cat $MUSTER_POD_ROOT/tmp/mine; echo $COLOUR; uname -n; echo wrong >&2; exit 6";
        let (code, stdout, stderr) =
            finish(world.processes.exec(&id, &options(&["sh", "-c", script])).unwrap());
        assert_eq!((code, stderr.as_str()), (6, "wrong\n"), "{stdout}");
        assert!(stdout.starts_with("mine\nblue\n"), "{stdout}");
        assert_eq!(stdout.ends_with("my-pod\n"), isolation == Isolation::Namespaces, "{stdout}");

        let mut exec = world.processes.exec(&id, &ExecOptions { stdin: true, ..options(&["cat"]) }).unwrap();
        exec.stdin.as_mut().unwrap().write_all(b"through\n").unwrap();
        assert_eq!(finish(exec), (0, "through\n".to_owned(), String::new()));

        let (code, ..) = finish(world.processes.exec(&id, &options(&["sh", "-c", "kill -TERM $$"])).unwrap());
        assert_eq!(code, 143);
        let (code, ..) = finish(world.processes.exec(&id, &options(&["true"])).unwrap());
        assert_eq!(code, 0);
        world.processes.kill(&id);
        world.ended(&id);
    }
}

#[test]
fn exec_failures_are_reported() {
    let world = World::new(Isolation::Namespaces);
    let id = sleeper(&world, "refused");
    let refused =
        |id: &RunId, argv: &[&str]| world.processes.exec(id, &options(argv)).err().unwrap_or_default();
    assert!(refused(&id, &["no-such-program"]).contains("no-such-program"));
    assert!(refused(&id, &[]).contains("empty"));
    world.processes.kill(&id);
    world.ended(&id);
    assert!(refused(&id, &["true"]).contains("does not run"));
    assert!(world.processes.attach(&id, true).err().unwrap_or_default().contains("does not run"));
    assert!(refused(&RunId { attempt: 9, ..id }, &["true"]).contains("never started"));
}

#[test]
fn killing_an_exec_kills_its_descendants() {
    for isolation in BOTH {
        let world = World::new(isolation);
        let id = sleeper(&world, "tree");
        let mark = word("tree");
        let script = format!(
            "(sh -c 'while :; do sleep 0.05; done # {mark}' &); while :; do sleep 0.05; done # {mark}"
        );
        let mut exec = world.processes.exec(&id, &options(&["sh", "-c", &script])).unwrap();
        eventually("both run", || processes_with(&mark).len() >= 2);
        let killer = exec.process.killer();
        std::thread::spawn(killer);
        assert_eq!(exec.process.wait().unwrap(), 137);
        assert_eq!(processes_with(&mark), Vec::<i32>::new());

        let exec = world.processes.exec(&id, &options(&["sh", "-c", &script])).unwrap();
        eventually("both run again", || processes_with(&mark).len() >= 2);
        drop(exec);
        eventually("nobody is interested any more", || processes_with(&mark).is_empty());
        world.processes.kill(&id);
        world.ended(&id);
    }
}

#[test]
fn background_processes_of_an_exec_end_with_the_container() {
    for isolation in BOTH {
        let world = World::new(isolation);
        let id = sleeper(&world, "behind");
        let mark = word("behind");
        let script = format!("setsid sh -c 'while :; do sleep 0.05; done # {mark}' >/dev/null 2>&1 & exit 4");
        let (code, ..) = finish(world.processes.exec(&id, &options(&["sh", "-c", &script])).unwrap());
        assert_eq!(code, 4);
        if isolation == Isolation::None {
            assert_eq!(processes_with(&mark), Vec::<i32>::new(), "nobody would end it later");
        }
        world.processes.kill(&id);
        world.ended(&id);
        assert_eq!(processes_with(&mark), Vec::<i32>::new(), "{isolation:?}");
    }
}

#[test]
fn execs_count_towards_the_limits() {
    for isolation in BOTH {
        let world = World::new(isolation);
        let mut launch = world.sh("counted", "echo ready; while :; do sleep 0.05; done");
        launch.limits.processes = 32;
        let id = world.start(&launch);
        world.says(&id, "ready");
        world.running(&id);
        let script = "i=0; while [ $i -lt 60 ]; do sleep 10 & i=$((i+1)); done; sleep 10";
        let exec = world.processes.exec(&id, &options(&["sh", "-c", script])).unwrap();
        assert_eq!(world.ended(&id).why, ExitReason::TooManyProcesses, "{isolation:?}");
        drop(exec);
    }
}

#[test]
fn an_interrupt_is_delivered_once() {
    let world = World::new(Isolation::Namespaces);
    let script = "n=0; trap 'n=$((n+1)); echo interrupt $n' INT; echo ready; \
                  i=0; while [ $i -lt 20 ]; do sleep 0.05; i=$((i+1)); done; exit $n";
    let mut launch = world.sh("interrupt", script);
    (launch.stdin, launch.tty) = (true, true);
    let id = world.start(&launch);
    world.says(&id, "ready");
    world.running(&id);
    let mut stdin = world.processes.attach(&id, true).unwrap().stdin.unwrap();
    stdin.write_all(b"\x03").unwrap();
    assert_eq!(world.ended(&id).code, 1, "{}", world.text(&id));
}

#[test]
fn exec_with_a_terminal() {
    for isolation in BOTH {
        let world = World::new(isolation);
        let id = sleeper(&world, "tty");
        let ask = ExecOptions {
            stdin: true,
            tty: true,
            ..options(&["sh", "-c", "read go; test -t 0 && test -t 2 && stty size; exit 9"])
        };
        let mut exec = world.processes.exec(&id, &ask).unwrap();
        assert!(exec.stderr.is_none());
        exec.process.resizer()(132, 43);
        exec.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
        let stdout = drain(exec.stdout.take());
        assert_eq!(exec.process.wait().unwrap(), 9);
        assert!(stdout.contains("43 132"), "{stdout:?}");

        let ask = ExecOptions { stdin: true, tty: true, ..options(&["cat"]) };
        let mut exec = world.processes.exec(&id, &ask).unwrap();
        exec.stdin.as_mut().unwrap().write_all(b"x\n").unwrap();
        // Echoed once by the terminal and once by `cat`.
        let mut seen = 0;
        while seen < 2 {
            let mut some = [0; 16];
            let read = exec.stdout.as_mut().unwrap().read(&mut some).unwrap();
            seen += some[..read].iter().filter(|byte| **byte == b'x').count();
        }
        exec.stdin.as_mut().unwrap().write_all(b"\x03").unwrap();
        assert_eq!(exec.process.wait().unwrap(), 130, "Ctrl-C ends what is in front");
        world.processes.kill(&id);
        world.ended(&id);
    }
}

#[test]
fn attach_forwards_stdin() {
    for isolation in BOTH {
        let world = World::new(isolation);
        let mut launch = world.sh("attach", "while read line; do echo got $line; done; echo over");
        launch.stdin = true;
        launch.stdin_once = true;
        let id = world.start(&launch);
        world.running(&id);
        let attached = world.processes.attach(&id, true).unwrap();
        let mut stdin = attached.stdin.unwrap();
        stdin.write_all(b"one\ntwo\n").unwrap();
        drop(stdin);
        assert_eq!(world.ended(&id).code, 0, "the first who leaves ends it");
        assert_eq!(world.text(&id), "got one\ngot two\nover\n");

        let mut launch = world.sh("again", "while read line; do echo got $line; done; echo over");
        launch.stdin = true;
        let id = world.start(&launch);
        world.running(&id);
        for word in ["one", "two", "three"] {
            let mut stdin = world.processes.attach(&id, true).unwrap().stdin.unwrap();
            stdin.write_all(format!("{word}\n").as_bytes()).unwrap();
            drop(stdin);
            world.says(&id, &format!("got {word}"));
        }
        assert!(!world.text(&id).contains("over"), "it waits for the next");
        world.processes.kill(&id);
        world.ended(&id);
    }
}

#[test]
fn a_container_with_a_terminal() {
    for isolation in BOTH {
        let world = World::new(isolation);
        let mut launch = world.sh(
            "console",
            "test -t 0 && test -t 1 && echo -n 'name? '; read name; stty size; echo hello $name >&2",
        );
        (launch.stdin, launch.tty) = (true, true);
        let id = world.start(&launch);
        world.says(&id, "name? ");
        world.running(&id);
        let mut follow = LogReader::at_end(&world.processes.log_dir(&id)).unwrap();
        let attached = world.processes.attach(&id, true).unwrap();
        (attached.resize)(120, 40);
        // Size and stdin use different FIFOs, so their order is undefined.
        std::thread::sleep(std::time::Duration::from_millis(200));
        attached.stdin.unwrap().write_all(b"you\n").unwrap();
        assert_eq!(world.ended(&id).code, 0);
        let mut text = Vec::new();
        while let Some(bytes) = follow.next_bytes().unwrap() {
            text.extend(bytes);
        }
        let text = String::from_utf8_lossy(&text).replace('\r', "");
        assert!(text.contains("40 120\nhello you\n"), "{text:?}");
    }
}
