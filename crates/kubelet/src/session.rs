//! A client at the other end of a WebSocket: what it sends, what it is sent, and when it is gone.
//!
//! # Invariants
//!
//! - Reading and writing do not wait for each other: a command that cannot take more input can still say something.
//! - The last frame is followed by a close, and the connection is kept until the client has read it.

use std::time::Duration;

use bytes::Bytes;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::Stop;
use crate::dialect::{Arrived, Dialect};

/// Frames that wait for a slow client.
const OUTBOX_FRAMES: usize = 16;
/// Frames that wait for a slow command.
const INBOX_FRAMES: usize = 16;
/// How often a quiet client is asked whether it is still there.
const PING_EVERY: Duration = Duration::from_secs(15);
/// How long a client may take to take in the end.
const CLOSE_WAIT_MAX: Duration = Duration::from_secs(5);

/// A client.
pub(crate) struct Session {
    /// What it sends.
    pub inbox: mpsc::Receiver<Arrived>,
    /// What it is sent; dropped by all who have it, the client is told that this was all.
    pub outbox: Outbox,
    /// Ends when the client has gone or is sent away.
    pub gone: oneshot::Receiver<()>,
}

/// The way to a client.
#[derive(Clone)]
pub(crate) struct Outbox {
    frames: mpsc::Sender<Message>,
    dialect: Dialect,
}

/// The client has gone.
#[derive(Debug)]
pub(crate) struct Gone;

impl Outbox {
    /// Waits for room if need be.
    pub async fn send(&self, channel: u8, bytes: &[u8]) -> Result<(), Gone> {
        self.frames.send(self.dialect.message(channel, bytes)).await.map_err(|_| Gone)
    }

    /// What is spoken.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }
}

impl Session {
    /// Begins to carry frames both ways.
    pub fn begin<S>(socket: WebSocketStream<S>, dialect: Dialect, stop: Stop) -> Session
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (frames, to_send) = mpsc::channel(OUTBOX_FRAMES);
        let (arrivals, inbox) = mpsc::channel(INBOX_FRAMES);
        let (leaves, gone) = oneshot::channel();
        tokio::spawn(async move {
            carry(socket, dialect, to_send, arrivals, stop).await;
            drop(leaves);
        });
        Session { inbox, outbox: Outbox { frames, dialect }, gone }
    }
}

async fn carry<S>(
    socket: WebSocketStream<S>,
    dialect: Dialect,
    to_send: mpsc::Receiver<Message>,
    arrivals: mpsc::Sender<Arrived>,
    mut stop: Stop,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (mut sink, mut source) = socket.split();
    let close = tokio::select! {
        sent = send_all(&mut sink, to_send) => sent.is_ok().then_some(CloseCode::Normal),
        () = take_all(&mut source, dialect, arrivals) => None,
        () = stop.stopped() => Some(CloseCode::Away),
    };
    if let Some(code) = close {
        // Leaving with unread input would throw away what the client has not read yet.
        let _ = timeout(CLOSE_WAIT_MAX, say_goodbye(&mut sink, &mut source, code)).await;
    }
    let _ = timeout(CLOSE_WAIT_MAX, sink.close()).await;
}

/// Ends well when there is nothing more to send.
async fn send_all<S>(
    sink: &mut SplitSink<WebSocketStream<S>, Message>,
    mut to_send: mpsc::Receiver<Message>,
) -> Result<(), Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut ping = interval(PING_EVERY);
    ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ping.tick().await;
    loop {
        let message = tokio::select! {
            message = to_send.recv() => match message {
                Some(message) => message,
                None => return Ok(()),
            },
            _ = ping.tick() => Message::Ping(Bytes::new()),
        };
        sink.send(message).await?;
    }
}

/// Ends when the client does. What nobody takes any more is thrown away.
async fn take_all<S>(
    source: &mut SplitStream<WebSocketStream<S>>,
    dialect: Dialect,
    arrivals: mpsc::Sender<Arrived>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(Ok(message)) = source.next().await {
        if message.is_close() {
            return;
        }
        if let Some(arrived) = dialect.read(message) {
            let _ = arrivals.send(arrived).await;
        }
    }
}

async fn say_goodbye<S>(
    sink: &mut SplitSink<WebSocketStream<S>, Message>,
    source: &mut SplitStream<WebSocketStream<S>>,
    code: CloseCode,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let close = CloseFrame { code, reason: "".into() };
    if sink.send(Message::Close(Some(close))).await.is_ok() {
        while let Some(Ok(_)) = source.next().await {}
    }
}
