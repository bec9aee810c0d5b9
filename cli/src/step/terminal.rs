//! srun's own terminal, while a task has one of its own.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};

/// A terminal that hands on every key; back to what it was when dropped.
pub struct Raw {
    before: Termios,
}

impl Raw {
    /// Of standard input; none: it is no terminal.
    pub fn enter() -> Option<Self> {
        let input = io::stdin();
        let before = tcgetattr(input.as_fd()).ok()?;
        let mut raw = before.clone();
        cfmakeraw(&mut raw);
        tcsetattr(input.as_fd(), SetArg::TCSANOW, &raw).ok()?;
        Some(Self { before })
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin().as_fd(), SetArg::TCSADRAIN, &self.before);
    }
}

/// Rows and columns of the window, as far as there is one.
#[expect(unsafe_code, reason = "neither the standard library nor nix asks for a window's size safely")]
pub fn window_size() -> Option<(u32, u32)> {
    let mut size = nix::libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the call writes one winsize, which lives through it.
    let asked = unsafe { nix::libc::ioctl(io::stdin().as_raw_fd(), nix::libc::TIOCGWINSZ, &raw mut size) };
    (asked == 0 && size.ws_row > 0).then(|| (size.ws_row.into(), size.ws_col.into()))
}
