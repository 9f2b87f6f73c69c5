//! Tests of container logs.

use http_body_util::BodyExt;
use muster_process::logs::LogStream;

use crate::harness::{NOW, World, ended, resident, text};

#[tokio::test]
async fn parts_of_a_log() {
    let world = World::new();
    world.containers.say("main", 0, LogStream::Stdout, "before\n", NOW - 100);
    world.containers.say("main", 1, LogStream::Stdout, "one\n", NOW - 60);
    world.containers.say("main", 1, LogStream::Stderr, "two\n", NOW - 40);
    world.containers.say("main", 1, LogStream::Stdout, "three\n", NOW - 20);
    for (query, want) in [
        ("", "one\ntwo\nthree\n"),
        ("previous=true", "before\n"),
        ("tailLines=2", "two\nthree\n"),
        ("tailLines=0", ""),
        ("sinceSeconds=50", "two\nthree\n"),
        ("sinceTime=2023-11-14T22:13:00Z", "three\n"),
        ("limitBytes=5", "one\nt"),
        ("tailLines=1&timestamps=true", "2023-11-14T22:13:00.000000000Z three\n"),
        ("stream=Stderr", "two\n"),
        ("follow=true&limitBytes=4", "one\n"),
    ] {
        let got = world.get(&format!("/containerLogs/n/p/main?{query}")).await;
        assert_eq!(got, (200, want.to_owned()), "{query}");
    }
}

#[tokio::test]
async fn rejected_requests() {
    let world = World::new();
    for (path, code, want) in [
        ("n/x/main", 404, "pod \"x\" does not exist"),
        ("n/p/x", 404, "container \"x\" not found in pod \"p\""),
        ("n/p/new", 400, "container \"new\" in pod \"p\" is waiting to start: ContainerCreating"),
        ("n/p/over?previous=true", 400, "previous terminated container \"over\" in pod \"p\" not found"),
        ("n/p/new?previous=1", 400, "previous terminated container \"new\" in pod \"p\" not found"),
        ("n/p/main?tailLines=-1", 422, "{\"message\": \"Invalid request.\"}"),
    ] {
        assert_eq!(world.get(&format!("/containerLogs/{path}")).await, (code, want.to_owned()), "{path}");
    }
    assert_eq!(world.get("/nothing").await.0, 404);
    assert_eq!(world.get("/healthz").await, (200, "ok".to_owned()));
}

#[tokio::test]
async fn during_backoff_the_terminated_run_is_the_previous_one() {
    let world = World::new();
    world.containers.say("main", 1, LogStream::Stdout, "last\n", NOW);
    world.containers.set("main", 1, ended());
    let mut waits = resident();
    waits.waiting.insert("main".to_owned(), "CrashLoopBackOff".to_owned());
    world.roster.set("n", "p", waits);
    for query in ["", "?previous=true"] {
        let got = world.get(&format!("/containerLogs/n/p/main{query}")).await;
        assert_eq!(got, (200, "last\n".to_owned()), "{query}");
    }
}

#[tokio::test]
async fn following_ends_with_the_container_and_loses_nothing() {
    let world = World::new();
    let mut writer = world.containers.writer("main", 1);
    writer.take(LogStream::Stdout, b"one\n", 1);
    let mut answer = world.begin("/containerLogs/n/p/main?follow=true", &[]).await;
    let first = answer.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(&first[..], b"one\n");
    writer.take(LogStream::Stderr, b"two\n", 2);
    let second = answer.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(&second[..], b"two\n");
    writer.take(LogStream::Stdout, b"three\n", 3);
    world.containers.set("main", 1, ended());
    assert_eq!(text(answer).await, (200, "three\n".to_owned()));
}

#[tokio::test]
async fn following_ends_when_the_server_stops() {
    let world = World::new();
    let answer = world.begin("/containerLogs/n/p/main?follow=true", &[]).await;
    world.kubelet.stop();
    assert_eq!(text(answer).await, (200, String::new()));
}
