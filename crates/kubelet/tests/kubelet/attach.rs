//! Tests of attach.

use std::io::Read;

use muster_process::logs::LogStream;

use crate::harness::{V5, World, ended};

#[tokio::test]
async fn attach_forwards_stdin_and_new_output() {
    let world = World::new();
    let mut writer = world.containers.writer("main", 1);
    writer.take(LogStream::Stdout, b"long ago\n", 1);
    let path = "/attach/n/p/main?input=1&output=1&error=1";
    let mut client = world.stream(path, V5).await.unwrap();
    client.send(0, b"hello").await;
    client.send(4, br#"{"Width":9,"Height":8}"#).await;
    client.send(255, &[0]).await;
    let mut typed = world.containers.typed.lock().unwrap().take().unwrap();
    let read = tokio::task::spawn_blocking(move || {
        let mut text = String::new();
        typed.read_to_string(&mut text).map(|_| text)
    });
    assert_eq!(read.await.unwrap().unwrap(), "hello");
    assert_eq!(*world.containers.sizes.lock().unwrap(), [(9, 8)]);
    writer.take(LogStream::Stdout, b"out\nmore", 2);
    writer.flush(3);
    writer.take(LogStream::Stderr, b"err\n", 4);
    world.containers.set("main", 1, ended());
    let (out, err, ended) = client.outcome().await;
    assert_eq!((out.as_str(), err.as_str()), ("out\nmore", "err\n"));
    assert_eq!(ended.str_at(&["status"]), "Success");
}
