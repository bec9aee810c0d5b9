//! The socket on which srun asks for its step.

use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream as StdStream;
use std::path::Path;
use std::time::Duration;

use gpun_proto::pb::{FromStep, StepHello, ToStep, from_step, to_step};
use gpun_proto::step::{Frames, frame};
use tokio::io::AsyncReadExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::timeout;

use crate::daemon::Event;

/// How long whoever connects may take to say what it wants.
const HELLO_WAIT: Duration = Duration::from_secs(10);

/// Longest first frame, in bytes.
const HELLO_MAX_BYTES: usize = 1024;

/// Somebody who asks for a step.
#[derive(Debug)]
pub struct Asked {
    /// What it says.
    pub hello: StepHello,
    /// The connection, blocking, with nothing read beyond the hello.
    pub stream: StdStream,
}

impl Asked {
    /// Tells why nothing is started, as far as anybody listens.
    pub fn refuse(self, why: &str) {
        let message = FromStep { message: Some(from_step::Message::Refused(why.to_owned())) };
        let _ = self.stream.set_write_timeout(Some(Duration::from_secs(1)));
        let _ = io::Write::write_all(&mut &self.stream, &frame(&message));
    }
}

/// Listens at that path; everybody on the machine may ask.
///
/// # Errors
/// The socket can't be made.
pub fn open(path: &Path) -> io::Result<UnixListener> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::other("it has no folder"));
    };
    // By way of the folder: a socket's address takes no long path.
    let folder = fs::File::open(folder)?;
    let listener = UnixListener::bind(Path::new(&format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o666))?;
    Ok(listener)
}

/// Tells the daemon of everybody who asks, for as long as it lives.
pub async fn serve(listener: UnixListener, news: UnboundedSender<Event>) {
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "nobody can be let in for a step now");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let news = news.clone();
        tokio::spawn(async move {
            match timeout(HELLO_WAIT, hello(stream)).await {
                Ok(Ok(asked)) => drop(news.send(Event::Step(asked))),
                Ok(Err(error)) => tracing::debug!(%error, "somebody asked for a step in words that are none"),
                Err(_) => tracing::debug!("somebody connected for a step and said nothing"),
            }
        });
    }
}

/// Reads the hello, and not a byte more: what follows is for the step's own process.
async fn hello(mut stream: UnixStream) -> io::Result<Asked> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).await?;
    let bytes = u32::from_le_bytes(length) as usize;
    if bytes > HELLO_MAX_BYTES {
        return Err(io::Error::other("its first frame is too long"));
    }
    let mut body = vec![0; bytes];
    stream.read_exact(&mut body).await?;
    let mut frames = Frames::default();
    frames.push(&length);
    frames.push(&body);
    match frames.next_message::<ToStep>().map_err(io::Error::other)?.and_then(|message| message.message) {
        Some(to_step::Message::Hello(hello)) => {
            let stream = stream.into_std()?;
            stream.set_nonblocking(false)?;
            Ok(Asked { hello, stream })
        }
        _ => Err(io::Error::other("its first frame is no hello")),
    }
}
