//! Port-forward over WebSocket channels: one data and one error channel per port.

use futures::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::mpsc;

use bytes::Bytes;

use crate::exec::PIECE_BYTES;
use crate::session::{Disconnected, Outbox, Session};
use crate::subprotocol::ChannelMessage;

/// Buffered messages per connection.
const WAITING_MAX: usize = 16;

/// The pod of a port-forward.
#[derive(Debug, Clone)]
pub(crate) struct ForwardTarget {
    pub pod: String,
    pub uid: String,
    pub address: String,
}

/// Forwards until all connections are closed or the client disconnects.
pub(crate) async fn run(target: ForwardTarget, ports: Vec<u16>, session: Session) {
    let Session { inbox, outbox, gone } = session;
    let mut inputs = Vec::new();
    let mut works = Vec::new();
    for (at, port) in ports.into_iter().enumerate() {
        let (input, arrivals) = mpsc::channel(WAITING_MAX);
        inputs.push(input);
        let channel = u8::try_from(2 * at).expect("the number of ports is bounded");
        works.push(forward_port(target.clone(), port, channel, outbox.clone(), arrivals));
    }
    drop(outbox);
    tokio::select! {
        _ = join_all(works) => {}
        () = dispatch(inbox, inputs) => {}
        _ = gone => {}
    }
}

/// Dispatches messages to their ports.
async fn dispatch(mut inbox: mpsc::Receiver<ChannelMessage>, inputs: Vec<mpsc::Sender<Bytes>>) {
    while let Some(arrived) = inbox.recv().await {
        let ChannelMessage::Data(channel, bytes) = arrived else {
            continue;
        };
        // Odd channels are error channels, which clients do not write.
        if channel % 2 == 0
            && let Some(input) = inputs.get(usize::from(channel / 2))
        {
            let _ = input.send(bytes).await;
        }
    }
}

async fn forward_port(
    target: ForwardTarget,
    port: u16,
    channel: u8,
    outbox: Outbox,
    arrivals: mpsc::Receiver<Bytes>,
) -> Result<(), Disconnected> {
    // Each channel starts with its port in little endian, as the protocol requires.
    outbox.send(channel, &port.to_le_bytes()).await?;
    outbox.send(channel + 1, &port.to_le_bytes()).await?;
    match TcpStream::connect((target.address.as_str(), port)).await {
        Ok(stream) => carry(stream, channel, &outbox, arrivals).await,
        Err(error) => outbox.send(channel + 1, connect_error(&target, port, &error).as_bytes()).await,
    }
}

/// The error message of a failed connection.
pub(crate) fn connect_error(target: &ForwardTarget, port: u16, error: &std::io::Error) -> String {
    let ForwardTarget { pod, uid, address } = target;
    format!("error forwarding port {port} to pod {pod}, uid : {uid}: dial tcp {address}:{port}: {error}")
}

async fn carry(
    stream: TcpStream,
    channel: u8,
    outbox: &Outbox,
    arrivals: mpsc::Receiver<Bytes>,
) -> Result<(), Disconnected> {
    let (mut from, to) = stream.into_split();
    let writing = tokio::spawn(write_all(to, arrivals));
    let mut buffer = vec![0; PIECE_BYTES];
    let mut carried = Ok(());
    while let (Ok(()), Ok(read @ 1..)) = (&carried, from.read(&mut buffer).await) {
        carried = outbox.send(channel, &buffer[..read]).await;
    }
    // The pod or the client has closed the connection: pending input is dropped.
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
