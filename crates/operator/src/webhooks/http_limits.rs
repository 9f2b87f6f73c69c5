//! Reads request bodies from unauthenticated clients within limits of size, memory and time.
//!
//! # Guarantees
//!
//! - A body arrives completely within its deadline or is rejected: a slow client delays only its own request.
//! - The memory of all bodies together is bounded, and accounted as bytes arrive.

use std::fmt::Display;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Body;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Limits for request bodies.
#[derive(Debug, Clone, Copy)]
pub struct BodyLimits {
    pub body_bytes: usize,
    /// Bytes of all bodies in memory together.
    pub all_bytes: usize,
    /// Deadline for one body.
    pub timeout: Duration,
}

pub struct BodyReader {
    limits: BodyLimits,
    memory: Arc<Semaphore>,
}

/// A body; its share of the memory limit is released on drop.
pub struct ReviewBody {
    pub bytes: Bytes,
    _room: Option<OwnedSemaphorePermit>,
}

/// A rejected body: HTTP status code and message.
#[derive(Debug, PartialEq, Eq)]
pub struct BodyError(pub u16, pub String);

impl BodyReader {
    pub fn new(bounds: BodyLimits) -> BodyReader {
        BodyReader { limits: bounds, memory: Arc::new(Semaphore::new(bounds.all_bytes)) }
    }

    /// Reads a body.
    ///
    /// # Errors
    /// 413 too large, 408 too slow, 400 broken off, 503 the memory limit is reached.
    pub async fn read<B>(&self, body: B) -> Result<ReviewBody, BodyError>
    where
        B: Body<Data = Bytes>,
        B::Error: Display,
    {
        let time = self.limits.timeout;
        let late = |_| Err(BodyError(408, format!("the body did not arrive within {time:?}")));
        tokio::time::timeout(time, self.read_to_end(body)).await.unwrap_or_else(late)
    }

    async fn read_to_end<B>(&self, body: B) -> Result<ReviewBody, BodyError>
    where
        B: Body<Data = Bytes>,
        B::Error: Display,
    {
        let mut body = pin!(body);
        let (mut whole, mut room) = (BytesMut::new(), None::<OwnedSemaphorePermit>);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|e| BodyError(400, format!("reading the body: {e}")))?;
            let Ok(piece) = frame.into_data() else { continue };
            let more = self.reserve(whole.len(), piece.len())?;
            match &mut room {
                Some(room) => room.merge(more),
                None => room = Some(more),
            }
            whole.extend_from_slice(&piece);
        }
        Ok(ReviewBody { bytes: whole.freeze(), _room: room })
    }

    fn reserve(&self, have: usize, more: usize) -> Result<OwnedSemaphorePermit, BodyError> {
        let max = self.limits.body_bytes;
        let more = u32::try_from(more).ok().filter(|more| have + *more as usize <= max);
        let more = more.ok_or_else(|| BodyError(413, format!("the body is larger than {max} bytes")))?;
        let full = |_| {
            BodyError(503, format!("request bodies of {} bytes are in flight already", self.limits.all_bytes))
        };
        self.memory.clone().try_acquire_many_owned(more).map_err(full)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::stream::{self, StreamExt};
    use http_body_util::{Full, StreamBody};
    use hyper::body::Frame;

    use super::*;

    const BOUNDS: BodyLimits =
        BodyLimits { body_bytes: 8, all_bytes: 12, timeout: Duration::from_millis(50) };

    fn whole(bytes: &'static [u8]) -> Full<Bytes> {
        Full::new(Bytes::from_static(bytes))
    }

    #[tokio::test]
    async fn bodies_are_limited_individually_and_together() {
        let intake = BodyReader::new(BOUNDS);
        let first = intake.read(whole(b"12345678")).await.unwrap();
        assert_eq!(first.bytes, "12345678");
        assert_eq!(intake.read(whole(b"123456789")).await.err().unwrap().0, 413, "too large by itself");
        assert_eq!(intake.read(whole(b"12345")).await.err().unwrap().0, 503, "too large beside another");
        let beside = intake.read(whole(b"1234")).await.unwrap();
        drop(first);
        assert_eq!(intake.read(whole(b"12345")).await.unwrap().bytes, "12345", "room comes back");
        drop(beside);
    }

    #[tokio::test]
    async fn an_incomplete_body_times_out_and_releases_its_memory() {
        let intake = BodyReader::new(BOUNDS);
        for _ in 0..3 {
            let begun = stream::iter([Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"12345678")))]);
            let endless = StreamBody::new(begun.chain(stream::pending()));
            assert_eq!(intake.read(endless).await.err().unwrap().0, 408);
        }
    }
}
