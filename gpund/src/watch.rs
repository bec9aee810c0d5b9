//! One task a job: starts the supervisor or finds it again, tells the daemon what it says, and carries orders to it. When
//! the supervisor is gone before its time, what it left is cleaned up here.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::task::spawn_blocking;

use crate::agent::Key;
use crate::daemon::Event;
use crate::jobdir::JobDir;
use crate::notice;
use crate::phase::{ExitRecord, Phase};
use crate::recover;
use crate::shimlink::{Act, Event as Line, Request, socket_path};
use crate::sys::Linux;

/// How long until a supervisor that lives but does not answer is tried again.
const AGAIN: Duration = Duration::from_millis(200);

/// What the daemon hears of one job.
#[derive(Debug)]
pub enum News {
    /// How far it is.
    Phase(Phase),
    /// Its supervisor is gone; always the last word.
    Closed,
}

/// What a task needs to know.
pub struct Watch {
    /// Which attempt.
    pub key: Key,
    /// Its folder.
    pub dir: JobDir,
    /// The supervisor's program, if it is still to be started.
    pub start: Option<PathBuf>,
    /// Said on the job's standard error when the kernel killed a process of it for want of memory; may be empty.
    pub oom_notice: String,
    /// Where the daemon hears of it.
    pub news: UnboundedSender<Event>,
}

impl Watch {
    /// Runs until the supervisor is gone.
    pub async fn run(self, mut orders: UnboundedReceiver<Act>) {
        let child = match &self.start {
            None => None,
            Some(shim) => match start(self.dir.clone(), shim.clone()).await {
                Ok(child) => Some(child),
                Err(error) => {
                    tracing::error!(job = %self.key, %error, "the supervisor can't be started");
                    None
                }
            },
        };
        loop {
            match self.listen(&mut orders).await {
                Ok(true) => break,
                Ok(false) => {}
                Err(error) => tracing::debug!(job = %self.key, %error, "no word from the supervisor"),
            }
            if self.settle().await {
                break;
            }
            tokio::time::sleep(AGAIN).await;
        }
        if let Some(mut child) = child
            && let Err(error) = child.wait().await
        {
            tracing::warn!(job = %self.key, %error, "the supervisor can't be waited for");
        }
        self.tell(News::Closed);
    }

    fn tell(&self, news: News) {
        // The daemon ends first: then nobody has to hear it.
        let _ = self.news.send(Event::Job(self.key, news));
    }

    /// Talks with the supervisor until it closes. True: the end was told.
    async fn listen(&self, orders: &mut UnboundedReceiver<Act>) -> io::Result<bool> {
        let dir = File::open(self.dir.path())?;
        let mut stream = UnixStream::connect(socket_path(&dir)).await?;
        drop(dir);
        let (reader, mut writer) = stream.split();
        let mut lines = BufReader::new(reader).lines();
        let (mut seq, mut ended, mut orders_open) = (0, false, true);
        loop {
            tokio::select! {
                line = lines.next_line() => match line? {
                    None => return Ok(ended),
                    Some(line) => ended |= self.hear(&line).await?,
                },
                order = orders.recv(), if orders_open => match order {
                    None => orders_open = false,
                    Some(act) => {
                        seq += 1;
                        let mut line = serde_json::to_vec(&Request { seq, act })?;
                        line.push(b'\n');
                        if let Err(error) = writer.write_all(&line).await {
                            // It may have closed after its last word, which is still to be read.
                            tracing::debug!(job = %self.key, %error, "an order did not reach the supervisor");
                            orders_open = false;
                        }
                    }
                },
            }
        }
    }

    /// Tells what one line says. True: it was the end.
    async fn hear(&self, line: &str) -> io::Result<bool> {
        match serde_json::from_str(line)? {
            Line::Phase(phase) => {
                let ended = matches!(phase, Phase::Ended(_));
                self.phase(phase).await;
                Ok(ended)
            }
            Line::Done { seq, error, usage: _ } => {
                if let Some(error) = error {
                    tracing::warn!(job = %self.key, seq, error, "the supervisor could not do as ordered");
                }
                Ok(false)
            }
        }
    }

    async fn phase(&self, phase: Phase) {
        if let Phase::Ended(exit) = &phase
            && exit.oom
            && !self.oom_notice.is_empty()
        {
            self.say_oom().await;
        }
        self.tell(News::Phase(phase));
    }

    async fn say_oom(&self) {
        let (dir, text) = (self.dir.clone(), self.oom_notice.clone());
        let said = spawn_blocking(move || notice::append(&dir.read_launch()?, &text)).await;
        if let Ok(Err(error)) = said {
            tracing::info!(job = %self.key, %error, "the job's standard error can't be appended to");
        }
    }

    /// Looks what there is without the supervisor's word. True: the end was told.
    async fn settle(&self) -> bool {
        let dir = self.dir.clone();
        let end = spawn_blocking(move || end_without_shim(&dir)).await;
        match end.map_err(io::Error::other).flatten() {
            Ok(Some(exit)) => {
                self.phase(Phase::Ended(exit)).await;
                true
            }
            Ok(None) => false,
            Err(error) => {
                tracing::error!(job = %self.key, %error, "what a lost supervisor left can't be cleaned up; trying again");
                false
            }
        }
    }
}

async fn start(dir: JobDir, shim: PathBuf) -> io::Result<Child> {
    let started = spawn_blocking(move || Command::from(dir.shim_command(&shim)?).spawn()).await;
    started.map_err(io::Error::other).flatten()
}

/// The end of a job whose supervisor is gone, cleaned up. None: the supervisor lives.
fn end_without_shim(dir: &JobDir) -> io::Result<Option<ExitRecord>> {
    let found = recover::inspect(dir.path())?;
    if let Phase::Ended(exit) = found.phase {
        return Ok(Some(exit));
    }
    if found.shim_alive {
        return Ok(None);
    }
    recover::clean_orphan(&Linux, dir.path()).map(Some).map_err(io::Error::other)
}
