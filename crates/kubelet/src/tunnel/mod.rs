//! Port-forward for kubectl: SPDY frames tunnelled through a WebSocket, two streams per connection.
//!
//! Each connection has a data and an error stream with the same `requestid`.

mod frames;
mod words;

use std::collections::BTreeMap;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use self::frames::{Frame, Reader, Writer};
use crate::exec::PIECE_BYTES;
use crate::port_forward::{ForwardTarget, connect_error};
use crate::session::{Disconnected, Outbox, Session};
use crate::subprotocol::ChannelMessage;

/// Concurrent connections per tunnel.
const CONNECTIONS_MAX: usize = 128;
/// Buffered messages per connection.
const WAITING_MAX: usize = 16;

/// Serves connections until the client disconnects.
pub(crate) async fn run(target: ForwardTarget, session: Session) {
    let Session { inbox, outbox, gone } = session;
    let mut tunnel = Tunnel {
        target,
        outbox,
        writer: Writer::default(),
        half: BTreeMap::new(),
        open: BTreeMap::new(),
        works: JoinSet::new(),
    };
    tokio::select! {
        _ = tunnel.serve(inbox) => {}
        _ = gone => {}
    }
}

struct Tunnel {
    target: ForwardTarget,
    outbox: Outbox,
    writer: Writer,
    /// Connections with one open stream, by `requestid`.
    half: BTreeMap<String, PendingConnection>,
    open: BTreeMap<u32, Open>,
    /// Aborted when the tunnel is closed.
    works: JoinSet<Result<(), Disconnected>>,
}

#[derive(Default)]
struct PendingConnection {
    error_stream: Option<u32>,
    data: Option<(u32, mpsc::Receiver<Bytes>)>,
}

struct Open {
    input: mpsc::Sender<Bytes>,
    work: Option<AbortHandle>,
}

impl Tunnel {
    async fn serve(&mut self, mut inbox: mpsc::Receiver<ChannelMessage>) -> Result<(), Disconnected> {
        let mut reader = Reader::new();
        while let Some(arrived) = inbox.recv().await {
            let ChannelMessage::Data(_, bytes) = arrived else {
                continue;
            };
            reader.push(&bytes);
            loop {
                match reader.next() {
                    Ok(Some(frame)) => self.take(frame).await?,
                    Ok(None) => break,
                    Err(error) => {
                        tracing::debug!(%error, "invalid SPDY frame; port-forward tunnel closed");
                        return Err(Disconnected);
                    }
                }
            }
        }
        Ok(())
    }

    async fn take(&mut self, frame: Frame) -> Result<(), Disconnected> {
        // Reap finished connections, or they would count towards the limit.
        while self.works.try_join_next().is_some() {}
        match frame {
            Frame::Open { stream, headers, is_last } => self.begin(stream, &headers, is_last).await,
            Frame::Data { stream, bytes, is_last } => {
                let fed = match self.open.get(&stream) {
                    Some(open) if !bytes.is_empty() => open.input.send(bytes).await.is_ok(),
                    _ => true,
                };
                if is_last || !fed {
                    // Dropping the sender is EOF for the pod.
                    self.open.remove(&stream);
                }
                Ok(())
            }
            Frame::Reset { stream } => {
                if let Some(work) = self.open.remove(&stream).and_then(|open| open.work) {
                    work.abort();
                }
                Ok(())
            }
            Frame::Ping { id } => self.send(&frames::pong(id)).await,
            Frame::GoAway | Frame::Other => Ok(()),
        }
    }

    async fn begin(
        &mut self,
        stream: u32,
        headers: &[(String, String)],
        is_last: bool,
    ) -> Result<(), Disconnected> {
        let header = |name: &str| headers.iter().find(|(n, _)| n == name).map_or("", |(_, v)| v.as_str());
        let port = header("port").parse::<u16>().ok().filter(|port| *port > 0);
        // Above the limit the stream is refused and the tunnel stays open.
        let has_room = self.works.len() + self.half.len() < CONNECTIONS_MAX;
        let (Some(port), true) = (port, has_room) else {
            return self.send(&frames::refuse(stream)).await;
        };
        let request = header("requestid").to_owned();
        let half = self.half.entry(request.clone()).or_default();
        match header("streamtype") {
            "error" => half.error_stream = Some(stream),
            "data" => {
                let (input, arrivals) = mpsc::channel(WAITING_MAX);
                half.data = Some((stream, arrivals));
                if !is_last {
                    self.open.insert(stream, Open { input, work: None });
                }
            }
            _ => return self.send(&frames::refuse(stream)).await,
        }
        let reply = self.writer.reply(stream);
        self.send(&reply).await?;
        self.connect(&request, port);
        Ok(())
    }

    /// Connects when both streams are open.
    fn connect(&mut self, request: &str, port: u16) {
        let half = self.half.remove(request).unwrap_or_default();
        let PendingConnection { error_stream: Some(error_stream), data: Some((data, arrivals)) } = half
        else {
            self.half.insert(request.to_owned(), half);
            return;
        };
        let connection = Connection { outbox: self.outbox.clone(), data, error_stream };
        let work = self.works.spawn(connection.run(self.target.clone(), port, arrivals));
        if let Some(open) = self.open.get_mut(&data) {
            open.work = Some(work);
        }
    }

    async fn send(&self, frame: &[u8]) -> Result<(), Disconnected> {
        self.outbox.send(0, frame).await
    }
}

/// One connection to a port with its two streams.
struct Connection {
    outbox: Outbox,
    data: u32,
    error_stream: u32,
}

impl Connection {
    async fn run(
        self,
        target: ForwardTarget,
        port: u16,
        arrivals: mpsc::Receiver<Bytes>,
    ) -> Result<(), Disconnected> {
        let said = match TcpStream::connect((target.address.as_str(), port)).await {
            Ok(stream) => {
                self.carry(stream, arrivals).await?;
                String::new()
            }
            Err(error) => connect_error(&target, port, &error),
        };
        self.outbox.send(0, &frames::data(self.error_stream, said.as_bytes(), true)).await?;
        self.outbox.send(0, &frames::data(self.data, b"", true)).await
    }

    async fn carry(&self, stream: TcpStream, arrivals: mpsc::Receiver<Bytes>) -> Result<(), Disconnected> {
        let (mut from, to) = stream.into_split();
        let reading = async {
            let mut buffer = vec![0; PIECE_BYTES];
            while let Ok(read @ 1..) = from.read(&mut buffer).await {
                self.outbox.send(0, &frames::data(self.data, &buffer[..read], false)).await?;
            }
            Ok(())
        };
        tokio::pin!(reading);
        // Half-close: the client's data may end before the reply does.
        tokio::select! {
            read = &mut reading => return read,
            () = write_all(to, arrivals) => {}
        }
        reading.await
    }
}

async fn write_all(mut to: OwnedWriteHalf, mut arrivals: mpsc::Receiver<Bytes>) {
    while let Some(bytes) = arrivals.recv().await {
        if to.write_all(&bytes).await.is_err() {
            return;
        }
    }
    let _ = to.shutdown().await;
}
