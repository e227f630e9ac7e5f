//! The line between a server and its database, on which answers can be held up.

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex},
    thread,
};

/// Passes everything on, until answers are held back.
pub(crate) struct Line {
    address: SocketAddr,
    gate: Arc<Gate>,
}

#[derive(Default)]
struct Gate {
    is_shut: Mutex<bool>,
    moved: Condvar,
}

impl Line {
    /// A line to where a URL of PostgreSQL leads, and the URL that leads over it.
    pub(crate) fn to(url: &str) -> (Self, String) {
        let (head, rest) = url.split_once('@').unwrap();
        let (target, tail) = rest.split_once('/').unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let line = Self { address: listener.local_addr().unwrap(), gate: Arc::default() };
        let (target, gate) = (target.to_owned(), Arc::clone(&line.gate));
        thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let Ok(far) = TcpStream::connect(&target) else { continue };
                let (near_again, far_again) = (near.try_clone().unwrap(), far.try_clone().unwrap());
                let gate = Arc::clone(&gate);
                thread::spawn(move || pass(near, far, || {}));
                thread::spawn(move || pass(far_again, near_again, || gate.wait()));
            }
        });
        let over = format!("{head}@{}/{tail}", line.address);
        (line, over)
    }

    /// Holds back the answers of the database from now on.
    pub(crate) fn hold_answers(&self) {
        self.gate.set(true);
    }

    /// Lets everything through that was kept back.
    pub(crate) fn let_go(&self) {
        self.gate.set(false);
    }
}

impl Gate {
    fn set(&self, shut: bool) {
        *self.is_shut.lock().unwrap() = shut;
        self.moved.notify_all();
    }

    fn wait(&self) {
        drop(self.moved.wait_while(self.is_shut.lock().unwrap(), |shut| *shut).unwrap());
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, before: impl Fn()) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        before();
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
