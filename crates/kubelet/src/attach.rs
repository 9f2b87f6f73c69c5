//! The live ends of a container, for a client: its output is its log from now on.

use std::io;
use std::sync::Arc;

use muster_process::logs::{LogReader, Stream};
use muster_process::{Containers, Id};
use tokio::time::sleep;

use crate::dialect::{STDERR, STDOUT};
use crate::exec::{PIECE_BYTES, feed, greet, tell};
use crate::logs::{FOLLOW_PAUSE, blocking, is_over};
use crate::options::Streams;
use crate::pipe::Drain;
use crate::session::{Gone, Outbox, Session};
use crate::status;

/// Carries input and output until the container ends or the client goes. The container does not notice the latter.
pub(crate) async fn run(containers: Arc<dyn Containers>, id: Id, streams: Streams, session: Session) {
    let Session { inbox, outbox, gone } = session;
    let folder = containers.log(&id);
    let reader = blocking(move || LogReader::at_end(&folder)).await.map_err(|error| error.to_string());
    // The log is opened first: what the container says to the first input is then seen.
    let ends = reader.and_then(|reader| {
        let attached = containers.attach(&id, streams.stdin)?;
        let stdin = attached.stdin.map(Drain::new).transpose();
        Ok((reader, stdin.map_err(|error| error.to_string())?, attached.resize))
    });
    let (reader, stdin, resize) = match ends {
        Ok(ends) => ends,
        Err(why) => {
            return tell(&outbox, &status::failed(&format!("error attaching to container: {why}"))).await;
        }
    };
    if greet(&outbox, streams).await.is_err() {
        return;
    }
    let ended = tokio::select! {
        ended = follow(containers.as_ref(), &id, reader, streams, &outbox) => ended,
        () = feed(inbox, stdin, resize.as_ref()) => return,
        _ = gone => return,
    };
    match ended {
        Ok(()) => tell(&outbox, &status::success()).await,
        Err(error) => tell(&outbox, &status::failed(&format!("error attaching to container: {error}"))).await,
    }
}

async fn follow(
    containers: &dyn Containers,
    id: &Id,
    mut reader: LogReader,
    streams: Streams,
    outbox: &Outbox,
) -> io::Result<()> {
    loop {
        let is_last = is_over(containers, id);
        let (given_back, said) = blocking(move || said(reader)).await?;
        reader = given_back;
        if said.is_empty() && is_last {
            return Ok(());
        }
        if said.is_empty() {
            sleep(FOLLOW_PAUSE).await;
        }
        for (stream, bytes) in said {
            if hand_on(stream, &bytes, streams, outbox).await.is_err() {
                return Ok(());
            }
        }
    }
}

async fn hand_on(stream: Stream, bytes: &[u8], streams: Streams, outbox: &Outbox) -> Result<(), Gone> {
    match stream {
        Stream::Stdout if streams.stdout => outbox.send(STDOUT, bytes).await,
        Stream::Stderr if streams.stderr => outbox.send(STDERR, bytes).await,
        Stream::Stdout | Stream::Stderr => Ok(()),
    }
}

/// Bytes by the stream they were said on, in their order.
type Said = Vec<(Stream, Vec<u8>)>;

/// What was said since the last look, neighbours of one stream put together.
fn said(mut reader: LogReader) -> io::Result<(LogReader, Said)> {
    let mut all = Said::new();
    let mut total = 0;
    while total < PIECE_BYTES {
        let Some(line) = reader.next_line()? else {
            break;
        };
        let bytes = line.bytes();
        total += bytes.len();
        match all.last_mut() {
            Some((stream, last)) if *stream == line.stream => last.extend_from_slice(&bytes),
            _ => all.push((line.stream, bytes)),
        }
    }
    Ok((reader, all))
}
