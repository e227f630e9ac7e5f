//! Passes a body on as it arrives.

use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use futures_util::stream;
use http_body_util::BodyExt as _;
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc},
    time::{Instant, timeout_at},
};

/// How long a body may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// How long the registry may send nothing, and how long the reader may read nothing.
    pub(super) stall: Duration,
    /// When it must be over.
    pub(super) until: Instant,
}

/// How many chunks may wait for the reader.
const WAITING: usize = 4;

/// Passes a body on; its slot is freed once the reader has read all of it or stops reading.
pub(super) fn body<B>(from: B, place: OwnedSemaphorePermit, limits: Limits) -> Body
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>> + Send,
{
    if from.is_end_stream() {
        return Body::empty();
    }
    let (sender, receiver) = mpsc::channel(WAITING);
    // A separate task: a reader that stops does not poll the body, and must not occupy its slot for ever.
    tokio::spawn(async move {
        move_on(from, &sender, limits).await;
        drop(place);
    });
    Body::from_stream(stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|chunk| (chunk, receiver))
    }))
}

async fn move_on<B>(mut from: B, to: &mpsc::Sender<std::io::Result<Bytes>>, limits: Limits)
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let soon = || limits.until.min(Instant::now() + limits.stall);
    loop {
        let frame = match timeout_at(soon(), from.frame()).await {
            Ok(Some(frame)) => frame.map_err(std::io::Error::other),
            Ok(None) => return,
            Err(_) => Err(std::io::Error::other("the registry took too long")),
        };
        let is_over = frame.is_err();
        let Some(chunk) = frame.map(|frame| frame.into_data().ok()).transpose() else { continue };
        // An error closes the connection, so that the reader does not take a part for the whole.
        let is_taken = timeout_at(soon(), to.send(chunk)).await.is_ok_and(|sent| sent.is_ok());
        if is_over || !is_taken {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::Semaphore;

    use super::*;

    const STALL: Duration = Duration::from_millis(200);

    fn limits() -> Limits {
        Limits { stall: STALL, until: Instant::now() + 100 * STALL }
    }

    fn of(chunks: usize) -> Body {
        let chunks = (0..chunks).map(|_| Ok::<_, std::io::Error>(Bytes::from_static(b"abcd")));
        Body::from_stream(stream::iter(chunks))
    }

    #[tokio::test]
    async fn a_body_is_passed_on_whole_and_its_place_is_free_then() {
        let places = Arc::new(Semaphore::new(1));
        let passed = body(of(100), Arc::clone(&places).try_acquire_owned().unwrap(), limits());
        assert!(places.try_acquire().is_err());
        assert_eq!(passed.collect().await.unwrap().to_bytes().len(), 400);
        assert!(places.acquire().await.is_ok());
    }

    #[tokio::test]
    async fn a_reader_that_stands_still_loses_its_place_and_gets_no_whole() {
        let places = Arc::new(Semaphore::new(1));
        let mut passed = body(of(100), Arc::clone(&places).try_acquire_owned().unwrap(), limits());
        assert!(passed.frame().await.unwrap().is_ok());
        assert!(places.acquire().await.is_ok(), "free while the body is held");
        assert!(passed.collect().await.map_or(true, |rest| rest.to_bytes().len() < 396));
    }

    #[tokio::test]
    async fn a_registry_that_stands_still_is_left() {
        let places = Arc::new(Semaphore::new(1));
        let silent = Body::from_stream(stream::pending::<std::io::Result<Bytes>>());
        let passed = body(silent, Arc::clone(&places).try_acquire_owned().unwrap(), limits());
        assert!(passed.collect().await.is_err());
        assert!(places.acquire().await.is_ok());
    }

    #[tokio::test]
    async fn a_body_that_takes_too_long_is_cut_off() {
        let places = Arc::new(Semaphore::new(1));
        let slow = stream::unfold((), |()| async {
            tokio::time::sleep(STALL / 4).await;
            Some((Ok::<_, std::io::Error>(Bytes::from_static(b"abcd")), ()))
        });
        let until = Limits { until: Instant::now() + 2 * STALL, ..limits() };
        let endless = body(Body::from_stream(slow), Arc::clone(&places).try_acquire_owned().unwrap(), until);
        assert!(endless.collect().await.is_err());
    }
}
