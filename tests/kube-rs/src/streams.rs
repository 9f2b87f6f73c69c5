//! Logs, exec, attach and port-forward of pods.

use std::time::Duration;

use futures::{AsyncBufReadExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, AttachParams, AttachedProcess, LogParams, PostParams};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{Failure, until};

const SERVER: &str = r#"
import os, socket
server = socket.create_server((os.environ["IP"], 8000))
while True:
    connection, _ = server.accept()
    connection.sendall(connection.recv(100).upper())
    connection.close()
"#;

/// Runs all checks, each with its own pod.
pub async fn all(client: Client, namespace: &str) -> Result<(), Failure> {
    let pods: Api<Pod> = Api::namespaced(client, namespace);
    commands(&pods).await?;
    println!("ok commands");
    logs(&pods).await?;
    println!("ok logs");
    attached(&pods).await?;
    println!("ok attaching");
    ports(&pods).await?;
    println!("ok ports");
    Ok(())
}

async fn begin(pods: &Api<Pod>, name: &str, command: &[&str]) -> Result<(), Failure> {
    let pod = json!({
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [{
                "name": "c", "image": "host", "command": command, "stdin": true,
                "env": [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
            }],
        },
    });
    pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
    until(name, || async {
        let phase = pods.get(name).await?.status.and_then(|status| status.phase).unwrap_or_default();
        Ok(phase != "Pending")
    })
    .await
}

async fn text(from: Option<impl tokio::io::AsyncRead + Unpin>) -> Result<String, Failure> {
    let mut text = String::new();
    from.ok_or("no such stream")?.read_to_string(&mut text).await?;
    Ok(text)
}

/// Returns the exit code in the status; 0 for success.
async fn code(process: &mut AttachedProcess) -> Result<i32, Failure> {
    let status = process.take_status().ok_or("no status")?.await.ok_or("no status received")?;
    if status.status.as_deref() == Some("Success") {
        return Ok(0);
    }
    let causes = status.details.and_then(|details| details.causes).unwrap_or_default();
    let cause = causes.into_iter().find(|cause| cause.reason.as_deref() == Some("ExitCode"));
    Ok(cause.and_then(|cause| cause.message).ok_or("no exit code")?.parse()?)
}

async fn commands(pods: &Api<Pod>) -> Result<(), Failure> {
    begin(pods, "runs", &["sh", "-c", "while :; do sleep 0.1; done"]).await?;
    let params = AttachParams::default().stderr(true);
    let mut process = pods.exec("runs", ["sh", "-c", "echo out; echo err >&2; exit 6"], &params).await?;
    let (out, err) = (process.stdout(), process.stderr());
    let code_of = code(&mut process).await?;
    let said = (text(out).await?, text(err).await?, code_of);
    if said != ("out\n".to_owned(), "err\n".to_owned(), 6) {
        return Err(format!("{said:?}").into());
    }
    let mut process = pods.exec("runs", ["cat"], &AttachParams::default().stdin(true).stderr(false)).await?;
    let mut stdin = process.stdin().ok_or("no input")?;
    let out = process.stdout();
    stdin.write_all(b"typed").await?;
    stdin.shutdown().await?;
    drop(stdin);
    let said = text(out).await?;
    if said != "typed" || code(&mut process).await? != 0 {
        return Err(format!("cat said {said:?}").into());
    }
    Ok(())
}

async fn logs(pods: &Api<Pod>) -> Result<(), Failure> {
    begin(pods, "counts", &["sh", "-c", "for i in 1 2 3; do echo $i; sleep 0.3; done"]).await?;
    let params = LogParams { follow: true, ..LogParams::default() };
    let lines: Vec<String> = pods.log_stream("counts", &params).await?.lines().try_collect().await?;
    if lines != ["1", "2", "3"] {
        return Err(format!("the log is {lines:?}").into());
    }
    Ok(())
}

async fn attached(pods: &Api<Pod>) -> Result<(), Failure> {
    begin(pods, "ear", &["sh", "-c", "read -r line; echo heard $line"]).await?;
    let mut process = pods.attach("ear", &AttachParams::default().stdin(true)).await?;
    process.stdin().ok_or("no input")?.write_all(b"hello\n").await?;
    let said = text(process.stdout()).await?;
    if said != "heard hello\n" {
        return Err(format!("the ear said {said:?}").into());
    }
    Ok(())
}

async fn ports(pods: &Api<Pod>) -> Result<(), Failure> {
    begin(pods, "serves", &["python3", "-c", SERVER]).await?;
    for _ in 0..100 {
        let mut forwarded = pods.portforward("serves", &[8000]).await?;
        let mut stream = forwarded.take_stream(8000).ok_or("no stream")?;
        let mut said = String::new();
        let talk = async {
            stream.write_all(b"hello").await?;
            stream.read_to_string(&mut said).await
        };
        // The server may not listen yet.
        if talk.await.is_ok() && said == "HELLO" {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Err("the forwarded port never answered".into())
}
