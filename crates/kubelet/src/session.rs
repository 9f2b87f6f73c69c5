//! A WebSocket session with a client: inbox, outbox, disconnect.
//!
//! # Guarantees
//!
//! - Reading and writing are independent: a command with a full stdin can still write output.
//! - The last message is followed by a close frame, and the connection stays open until the client has read it.

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

use crate::ShutdownSignal;
use crate::subprotocol::{ChannelMessage, Subprotocol};

/// Buffered messages to a slow client.
const OUTBOX_FRAMES: usize = 16;
/// Buffered messages to a slow command.
const INBOX_FRAMES: usize = 16;
/// Ping interval: a write to a vanished client fails in the end, which detects the disconnect.
const PING_EVERY: Duration = Duration::from_secs(15);
/// Timeout of the closing handshake.
const CLOSE_WAIT_MAX: Duration = Duration::from_secs(5);

pub(crate) struct Session {
    pub inbox: mpsc::Receiver<ChannelMessage>,
    /// Messages to the client; the session closes when all clones are dropped.
    pub outbox: Outbox,
    /// Resolves when the client disconnects or the server stops.
    pub gone: oneshot::Receiver<()>,
}

/// Sends messages to a client.
#[derive(Clone)]
pub(crate) struct Outbox {
    frames: mpsc::Sender<Message>,
    dialect: Subprotocol,
}

/// The client has disconnected.
#[derive(Debug)]
pub(crate) struct Disconnected;

impl Outbox {
    /// Waits while the buffer is full.
    pub async fn send(&self, channel: u8, bytes: &[u8]) -> Result<(), Disconnected> {
        self.frames.send(self.dialect.encode(channel, bytes)).await.map_err(|_| Disconnected)
    }

    pub fn dialect(&self) -> Subprotocol {
        self.dialect
    }
}

impl Session {
    /// Starts the tasks that send and receive messages.
    pub fn begin<S>(socket: WebSocketStream<S>, dialect: Subprotocol, stop: ShutdownSignal) -> Session
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (frames, to_send) = mpsc::channel(OUTBOX_FRAMES);
        let (arrivals, inbox) = mpsc::channel(INBOX_FRAMES);
        let (gone_sender, gone) = oneshot::channel();
        tokio::spawn(async move {
            carry(socket, dialect, to_send, arrivals, stop).await;
            drop(gone_sender);
        });
        Session { inbox, outbox: Outbox { frames, dialect }, gone }
    }
}

async fn carry<S>(
    socket: WebSocketStream<S>,
    dialect: Subprotocol,
    to_send: mpsc::Receiver<Message>,
    arrivals: mpsc::Sender<ChannelMessage>,
    mut stop: ShutdownSignal,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (mut sink, mut source) = socket.split();
    let close = tokio::select! {
        sent = send_all(&mut sink, to_send) => sent.is_ok().then_some(CloseCode::Normal),
        () = receive_all(&mut source, dialect, arrivals) => None,
        () = stop.stopped() => Some(CloseCode::Away),
    };
    if let Some(code) = close {
        // Closing a socket with unread input sends RST, which discards data that the client has not read.
        let _ = timeout(CLOSE_WAIT_MAX, close_handshake(&mut sink, &mut source, code)).await;
    }
    let _ = timeout(CLOSE_WAIT_MAX, sink.close()).await;
}

/// Returns `Ok` when all senders are dropped.
async fn send_all<S>(
    sink: &mut SplitSink<WebSocketStream<S>, Message>,
    mut to_send: mpsc::Receiver<Message>,
) -> Result<(), Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut ping = interval(PING_EVERY);
    ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first tick of an interval completes at once.
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

/// Receives until the client closes; messages without a receiver are discarded.
async fn receive_all<S>(
    source: &mut SplitStream<WebSocketStream<S>>,
    dialect: Subprotocol,
    arrivals: mpsc::Sender<ChannelMessage>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(Ok(message)) = source.next().await {
        if message.is_close() {
            return;
        }
        if let Some(arrived) = dialect.decode(message) {
            let _ = arrivals.send(arrived).await;
        }
    }
}

async fn close_handshake<S>(
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
