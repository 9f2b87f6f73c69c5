//! Takes in what is sent, from whomever.
//!
//! # Invariants
//!
//! - A body is whole within a time, or refused: whoever sends slowly holds up nobody but himself.
//! - What all bodies hold together is bounded, and counted as it arrives: sending little takes little.

use std::fmt::Display;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Body;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bounds of what is taken in.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Bytes of one body.
    pub body_bytes: usize,
    /// Bytes of all bodies that are here at a time.
    pub all_bytes: usize,
    /// How long one may take to arrive.
    pub time: Duration,
}

/// Where bodies come in.
pub struct Intake {
    bounds: Bounds,
    room: Arc<Semaphore>,
}

/// A body, and the room it takes for as long as it is here.
pub struct Taken {
    /// What it says.
    pub bytes: Bytes,
    _room: Option<OwnedSemaphorePermit>,
}

/// A body that was not taken: a code, and why.
#[derive(Debug, PartialEq, Eq)]
pub struct Untaken(pub u16, pub String);

impl Intake {
    /// Takes within these bounds.
    pub fn new(bounds: Bounds) -> Intake {
        Intake { bounds, room: Arc::new(Semaphore::new(bounds.all_bytes)) }
    }

    /// Takes a body.
    ///
    /// # Errors
    /// It is too large, does not come in time, is broken off, or there is no room for it now.
    pub async fn take<B>(&self, body: B) -> Result<Taken, Untaken>
    where
        B: Body<Data = Bytes>,
        B::Error: Display,
    {
        let time = self.bounds.time;
        let late = |_| Err(Untaken(408, format!("the body did not arrive within {time:?}")));
        tokio::time::timeout(time, self.read(body)).await.unwrap_or_else(late)
    }

    async fn read<B>(&self, body: B) -> Result<Taken, Untaken>
    where
        B: Body<Data = Bytes>,
        B::Error: Display,
    {
        let mut body = pin!(body);
        let (mut whole, mut room) = (BytesMut::new(), None::<OwnedSemaphorePermit>);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|e| Untaken(400, format!("reading the body: {e}")))?;
            let Ok(piece) = frame.into_data() else { continue };
            let more = self.room_for(whole.len(), piece.len())?;
            match &mut room {
                Some(room) => room.merge(more),
                None => room = Some(more),
            }
            whole.extend_from_slice(&piece);
        }
        Ok(Taken { bytes: whole.freeze(), _room: room })
    }

    fn room_for(&self, have: usize, more: usize) -> Result<OwnedSemaphorePermit, Untaken> {
        let max = self.bounds.body_bytes;
        let more = u32::try_from(more).ok().filter(|more| have + *more as usize <= max);
        let more = more.ok_or_else(|| Untaken(413, format!("the body is larger than {max} bytes")))?;
        let full = |_| Untaken(503, format!("bodies of {} bytes wait already", self.bounds.all_bytes));
        self.room.clone().try_acquire_many_owned(more).map_err(full)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::stream::{self, StreamExt};
    use http_body_util::{Full, StreamBody};
    use hyper::body::Frame;

    use super::*;

    const BOUNDS: Bounds = Bounds { body_bytes: 8, all_bytes: 12, time: Duration::from_millis(50) };

    fn whole(bytes: &'static [u8]) -> Full<Bytes> {
        Full::new(Bytes::from_static(bytes))
    }

    #[tokio::test]
    async fn bodies_have_bounds_one_by_one_and_together() {
        let intake = Intake::new(BOUNDS);
        let first = intake.take(whole(b"12345678")).await.unwrap();
        assert_eq!(first.bytes, "12345678");
        assert_eq!(intake.take(whole(b"123456789")).await.err().unwrap().0, 413, "too large by itself");
        assert_eq!(intake.take(whole(b"12345")).await.err().unwrap().0, 503, "too large beside another");
        let beside = intake.take(whole(b"1234")).await.unwrap();
        drop(first);
        assert_eq!(intake.take(whole(b"12345")).await.unwrap().bytes, "12345", "room comes back");
        drop(beside);
    }

    #[tokio::test]
    async fn a_body_that_does_not_end_is_given_up_with_its_room() {
        let intake = Intake::new(BOUNDS);
        for _ in 0..3 {
            let begun = stream::iter([Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"12345678")))]);
            let endless = StreamBody::new(begun.chain(stream::pending()));
            assert_eq!(intake.take(endless).await.err().unwrap().0, 408);
        }
    }
}
