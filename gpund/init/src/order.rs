//! What the shim asks of a running process 1.
//!
//! An order rides as the value of a queued real-time signal. So process 1 needs no descriptor that leads out of the
//! container (a checkpoint would choke on it), and an idle container wakes for nothing.

/// One order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Signal the script's process.
    Script(u8),
    /// Signal the script's process group.
    Group(u8),
    /// Signal every process but process 1.
    All(u8),
    /// Copy `/.gpun/notice` to the script's standard error.
    Notice,
    /// Start the task of a step whose file is `/.gpun/steps/N`. N is below [`Order::START_MAX`].
    Start(u32),
}

impl Order {
    /// Offset from `SIGRTMIN` of the signal that carries orders.
    pub const RT_OFFSET: i32 = 2;

    /// Numbers of tasks to start are below this.
    pub const START_MAX: u32 = 1 << 30;
    const START: i32 = 1 << 30;

    /// The signal's value.
    pub fn encode(self) -> i32 {
        match self {
            Self::Script(n) => 0x100 | i32::from(n),
            Self::Group(n) => 0x200 | i32::from(n),
            Self::All(n) => 0x300 | i32::from(n),
            Self::Notice => 0x400,
            Self::Start(n) => Self::START | (n % Self::START_MAX) as i32,
        }
    }

    /// Reads a signal's value.
    pub fn decode(value: i32) -> Option<Self> {
        if value >= Self::START {
            return Some(Self::Start((value & !Self::START) as u32));
        }
        let number = (value & 0xff) as u8;
        match value & !0xff {
            0x100 => Some(Self::Script(number)),
            0x200 => Some(Self::Group(number)),
            0x300 => Some(Self::All(number)),
            0x400 => Some(Self::Notice),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_survives_the_way() {
        for order in [
            Order::Script(10),
            Order::Group(15),
            Order::All(64),
            Order::Notice,
            Order::Start(0),
            Order::Start(Order::START_MAX - 1),
        ] {
            assert_eq!(Order::decode(order.encode()), Some(order));
        }
        for bad in [0, 0x500, -1, 0x1100, i32::MIN] {
            assert_eq!(Order::decode(bad), None, "{bad}");
        }
    }
}
