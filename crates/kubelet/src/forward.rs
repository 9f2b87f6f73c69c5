//! Ports of a pod, for a client: two channels per port, one for the bytes and one for trouble.

use futures::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::mpsc;

use bytes::Bytes;

use crate::dialect::Arrived;
use crate::exec::PIECE_BYTES;
use crate::session::{Gone, Outbox, Session};

/// Pieces that wait for a slow server of the pod.
const WAITING_MAX: usize = 16;

/// A pod whose ports are forwarded.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    /// For messages.
    pub pod: String,
    pub uid: String,
    /// Where it listens.
    pub address: String,
}

/// Carries bytes until all connections have ended or the client has gone.
pub(crate) async fn run(target: Target, ports: Vec<u16>, session: Session) {
    let Session { inbox, outbox, gone } = session;
    let mut inputs = Vec::new();
    let mut works = Vec::new();
    for (at, port) in ports.into_iter().enumerate() {
        let (input, arrivals) = mpsc::channel(WAITING_MAX);
        inputs.push(input);
        let channel = u8::try_from(2 * at).expect("the number of ports is bounded");
        works.push(one(target.clone(), port, channel, outbox.clone(), arrivals));
    }
    drop(outbox);
    tokio::select! {
        _ = join_all(works) => {}
        () = sort(inbox, inputs) => {}
        _ = gone => {}
    }
}

/// Hands what arrives to the port whose channel it is.
async fn sort(mut inbox: mpsc::Receiver<Arrived>, inputs: Vec<mpsc::Sender<Bytes>>) {
    while let Some(arrived) = inbox.recv().await {
        let Arrived::Data(channel, bytes) = arrived else {
            continue;
        };
        // Odd channels are for trouble on our side: clients have nothing to say there.
        if channel % 2 == 0
            && let Some(input) = inputs.get(usize::from(channel / 2))
        {
            let _ = input.send(bytes).await;
        }
    }
}

async fn one(
    target: Target,
    port: u16,
    channel: u8,
    outbox: Outbox,
    arrivals: mpsc::Receiver<Bytes>,
) -> Result<(), Gone> {
    outbox.send(channel, &port.to_le_bytes()).await?;
    outbox.send(channel + 1, &port.to_le_bytes()).await?;
    match TcpStream::connect((target.address.as_str(), port)).await {
        Ok(stream) => carry(stream, channel, &outbox, arrivals).await,
        Err(error) => outbox.send(channel + 1, trouble(&target, port, &error).as_bytes()).await,
    }
}

/// What is said when the pod does not answer on a port.
pub(crate) fn trouble(target: &Target, port: u16, error: &std::io::Error) -> String {
    let Target { pod, uid, address } = target;
    format!("error forwarding port {port} to pod {pod}, uid : {uid}: dial tcp {address}:{port}: {error}")
}

async fn carry(
    stream: TcpStream,
    channel: u8,
    outbox: &Outbox,
    arrivals: mpsc::Receiver<Bytes>,
) -> Result<(), Gone> {
    let (mut from, to) = stream.into_split();
    let writing = tokio::spawn(write_all(to, arrivals));
    let mut buffer = vec![0; PIECE_BYTES];
    let mut carried = Ok(());
    while let (Ok(()), Ok(read @ 1..)) = (&carried, from.read(&mut buffer).await) {
        carried = outbox.send(channel, &buffer[..read]).await;
    }
    writing.abort();
    carried
}

async fn write_all(mut to: OwnedWriteHalf, mut arrivals: mpsc::Receiver<Bytes>) {
    while let Some(bytes) = arrivals.recv().await {
        if to.write_all(&bytes).await.is_err() {
            return;
        }
    }
}
