//! Tests of exec.

use std::process::{Command, Stdio};

use muster_process::RunState;
use muster_tree::tree;

use crate::harness::{V4, V5, World, running};

fn sh(script: &str, streams: &str) -> String {
    let script: String = form_urlencoded::byte_serialize(script.as_bytes()).collect();
    format!("/exec/n/p/main?command=sh&command=-c&command={script}&{streams}")
}

#[tokio::test]
async fn output_errors_and_exit_codes() {
    let world = World::new();
    for (says, script, out, err, code) in [
        ("all is well", "echo a", "a\n", "", 0),
        ("both outputs", "echo a; echo b >&2; exit 3", "a\n", "b\n", 3),
        ("a signal", "kill -9 $$", "", "", 137),
    ] {
        for protocol in [V5, V4] {
            let mut client = world.stream(&sh(script, "output=1&error=1"), protocol).await.unwrap();
            let (o, e, ended) = client.outcome().await;
            assert_eq!((o.as_str(), e.as_str()), (out, err), "{says} {protocol}");
            match code {
                0 => assert_eq!(ended, tree!({"metadata": {}, "status": "Success"}), "{says}"),
                _ => {
                    assert_eq!(ended.str_at(&["reason"]), "NonZeroExitCode", "{says}");
                    let causes = tree!([{"reason": "ExitCode", "message": code.to_string()}]);
                    assert_eq!(ended.at(&["details", "causes"]), Some(&causes), "{says}");
                }
            }
        }
    }
}

#[tokio::test]
async fn stdin_is_closed_by_the_client() {
    let world = World::new();
    let mut client = world.stream("/exec/n/p/main?command=cat&input=1&output=1", V5).await.unwrap();
    let long = vec![b'x'; 300_000];
    for piece in long.chunks(30_000) {
        client.send(0, piece).await;
    }
    client.send(4, br#"{"Width":80,"Height":24}"#).await;
    client.send(255, &[0]).await;
    let (out, _, ended) = client.outcome().await;
    assert_eq!((out.len(), ended.str_at(&["status"])), (long.len(), "Success"));
    assert_eq!(*world.containers.sizes.lock().unwrap(), [(80, 24)]);
}

#[tokio::test]
async fn exec_waits_for_a_starting_container() {
    let world = World::new();
    world.containers.set("main", 1, RunState::Starting);
    let path = sh("echo a", "output=1");
    let (client, ()) = tokio::join!(world.stream(&path, V5), async {
        tokio::task::yield_now().await;
        world.containers.set("main", 1, running());
    });
    assert_eq!(client.unwrap().outcome().await.0, "a\n");
}

#[tokio::test]
async fn the_oldest_subprotocol_has_no_status() {
    let world = World::new();
    let mut client = world.stream(&sh("echo a", "output=1"), "").await.unwrap();
    assert_eq!(client.rest().await, [(1, "a\n".to_owned())].into());
    let mut client = world.stream(&sh("exit 2", "output=1"), "channel.k8s.io").await.unwrap();
    assert!(client.rest().await[&3].contains("exit status 2"));
}

#[tokio::test]
async fn exec_failures_are_sent_on_the_error_channel() {
    let world = World::new();
    let mut client = world.stream("/exec/n/p/main?command=/no/such&output=1", V5).await.unwrap();
    let (_, _, ended) = client.outcome().await;
    let message = ended.str_at(&["message"]);
    let begins = "Internal error occurred: error executing command in container: \"/no/such\": ";
    assert!(message.starts_with(begins), "{message}");
    assert_eq!(ended.int_at(&["code"]), Some(500));
}

#[tokio::test]
async fn unrequested_output_does_not_block() {
    let world = World::new();
    let much = "head -c 1000000 /dev/zero; head -c 1000000 /dev/zero >&2; echo a";
    let mut client = world.stream(&sh(much, "error=1"), V5).await.unwrap();
    let (out, err, _) = client.outcome().await;
    assert_eq!((out.as_str(), err.len()), ("", 1_000_000));
}

#[tokio::test]
async fn a_background_process_does_not_hold_the_stream() {
    let world = World::new();
    let mut client = world.stream(&sh("sleep 20 & echo $!", "output=1"), V5).await.unwrap();
    let (out, _, ended) = client.outcome().await;
    assert_eq!(ended.str_at(&["status"]), "Success");
    assert!(is_alive(out.trim()), "and it goes on");
    end(out.trim());
}

fn is_alive(pid: &str) -> bool {
    Command::new("kill").args(["-0", pid]).stderr(Stdio::null()).status().unwrap().success()
}

fn end(pid: &str) {
    Command::new("kill").args(["-9", pid]).status().unwrap();
}

async fn until_gone(pid: &str) {
    while is_alive(pid) {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_disconnect_kills_the_command() {
    let world = World::new();
    let mut client = world.stream(&sh("echo $$; exec sleep 1000", "output=1"), V5).await.unwrap();
    let (_, pid) = client.next().await.unwrap();
    drop(client);
    until_gone(pid.trim()).await;
}

#[tokio::test]
async fn a_server_stop_kills_commands_and_rejects_streams() {
    let world = World::new();
    let mut client = world.stream(&sh("echo $$; exec sleep 1000", "output=1"), V5).await.unwrap();
    let (_, pid) = client.next().await.unwrap();
    world.kubelet.stop();
    assert_eq!(client.next().await, None);
    until_gone(pid.trim()).await;
    let refused = world.stream(&sh("echo a", "output=1"), V5).await.err().map(|(code, _)| code);
    assert_eq!(refused, Some(429));
}

#[tokio::test]
async fn rejected_requests() {
    let world = World::new();
    for (says, path, code, text) in [
        ("no such pod", "/exec/n/x/main?command=a&output=1", 404, "pod does not exist"),
        ("another pod of that name", "/exec/n/p/uu/main?command=a&output=1", 404, "pod does not exist"),
        (
            "a container that ended",
            "/exec/n/p/over?command=a&output=1",
            500,
            "container not found (\"over\")",
        ),
        ("one that never began", "/exec/n/p/new?command=a&output=1", 500, "container not found (\"new\")"),
        ("one that is not there", "/attach/n/p/x?output=1", 500, "container x not found in pod p_n"),
        (
            "nothing to hold",
            "/exec/n/p/main?command=a",
            400,
            "you must specify at least 1 of stdin, stdout, stderr",
        ),
        ("nothing to forward", "/portForward/n/p", 400, "query parameter \"port\" is required"),
    ] {
        let refused = world.stream(path, V5).await.err();
        assert_eq!(refused, Some((code, text.to_owned())), "{says}");
    }
    let path = "/exec/n/p/main?command=a&output=1";
    assert_eq!(world.get(path).await, (400, "Upgrade request required".to_owned()));
    let refused = world.stream(path, "v9.channel.k8s.io").await.err();
    assert_eq!(refused.map(|(code, _)| code), Some(403));
    let spdy = [("connection", "Upgrade"), ("upgrade", "SPDY/3.1")];
    let answer = world.begin(path, &spdy).await;
    assert_eq!(answer.status(), 400);
}
