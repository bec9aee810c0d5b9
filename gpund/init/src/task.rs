//! What process 1 has to do.

/// The batch script and its surroundings. All paths are as seen inside the container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Task {
    /// The node's name, for messages.
    pub node: Vec<u8>,
    /// What is executed: argv, its first the program's path.
    pub argv: Vec<Vec<u8>>,
    /// The whole environment, `NAME=value`.
    pub env: Vec<Vec<u8>>,
    /// Where it starts.
    pub work_dir: Vec<u8>,
    /// Standard input.
    pub stdin: Vec<u8>,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error; equal to `stdout`: the same descriptor.
    pub stderr: Vec<u8>,
    /// Output files grow instead of being emptied.
    pub append: bool,
    /// File mode creation mask.
    pub umask: u32,
    /// `(resource number, soft limit)`.
    pub rlimits: Vec<(u32, u64)>,
    /// There is no script: the container is held until it is ended, and steps are started in it.
    pub hold: bool,
    /// The task of a step: a pipe for what becomes of it.
    pub status: Vec<u8>,
    /// The task of a step: a pipe from which it reads one byte before it begins.
    pub go: Vec<u8>,
    /// The task of a step: its three streams are this terminal.
    pub terminal: Vec<u8>,
}

/// The task file is damaged at that byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadTask(pub usize);

const MAGIC: &[u8] = b"gpun-task 1\n";

impl Task {
    /// As bytes: the magic line, then fields of one tag byte, a 32-bit little-endian length, and the value.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        let mut put = |tag: u8, value: &[u8]| {
            out.push(tag);
            out.extend_from_slice(&(value.len() as u32).to_le_bytes());
            out.extend_from_slice(value);
        };
        put(b'n', &self.node);
        self.argv.iter().for_each(|a| put(b'a', a));
        self.env.iter().for_each(|e| put(b'e', e));
        put(b'w', &self.work_dir);
        put(b'0', &self.stdin);
        put(b'1', &self.stdout);
        put(b'2', &self.stderr);
        put(b'+', &[u8::from(self.append)]);
        put(b'u', &self.umask.to_le_bytes());
        for (tag, value) in [(b's', &self.status), (b'g', &self.go), (b't', &self.terminal)] {
            if !value.is_empty() {
                put(tag, value);
            }
        }
        if self.hold {
            put(b'h', &[1]);
        }
        for (resource, soft) in &self.rlimits {
            let mut value = resource.to_le_bytes().to_vec();
            value.extend_from_slice(&soft.to_le_bytes());
            put(b'l', &value);
        }
        out
    }

    /// Reads what [`Task::encode`] wrote. Unknown tags are skipped.
    pub fn decode(bytes: &[u8]) -> Result<Self, BadTask> {
        let mut rest = bytes.strip_prefix(MAGIC).ok_or(BadTask(0))?;
        let mut task = Self::default();
        while let Some((&tag, after)) = rest.split_first() {
            let here = BadTask(bytes.len() - rest.len());
            let (len, after) = after.split_first_chunk::<4>().ok_or(here)?;
            let (value, after) = after.split_at_checked(u32::from_le_bytes(*len) as usize).ok_or(here)?;
            task.set(tag, value).ok_or(here)?;
            rest = after;
        }
        if task.argv.is_empty() && !task.hold { Err(BadTask(bytes.len())) } else { Ok(task) }
    }

    fn set(&mut self, tag: u8, value: &[u8]) -> Option<()> {
        match tag {
            b'n' => self.node = value.to_vec(),
            b'a' => self.argv.push(value.to_vec()),
            b'e' => self.env.push(value.to_vec()),
            b'w' => self.work_dir = value.to_vec(),
            b'0' => self.stdin = value.to_vec(),
            b'1' => self.stdout = value.to_vec(),
            b'2' => self.stderr = value.to_vec(),
            b'+' => self.append = value == [1],
            b's' => self.status = value.to_vec(),
            b'g' => self.go = value.to_vec(),
            b't' => self.terminal = value.to_vec(),
            b'h' => self.hold = value == [1],
            b'u' => self.umask = u32::from_le_bytes(value.try_into().ok()?),
            b'l' => {
                let (resource, soft) = value.split_first_chunk::<4>()?;
                self.rlimits.push((u32::from_le_bytes(*resource), u64::from_le_bytes(soft.try_into().ok()?)));
            }
            _ => {}
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Task {
        Task {
            node: b"n1".to_vec(),
            argv: vec![b"/.gpun/script".to_vec(), b"".to_vec(), vec![0xff, b' ']],
            env: vec![b"A=1\n2".to_vec(), b"B=".to_vec()],
            work_dir: b"/home/u".to_vec(),
            stdin: b"/dev/null".to_vec(),
            stdout: b"/o".to_vec(),
            stderr: b"/e".to_vec(),
            append: true,
            umask: 0o027,
            rlimits: vec![(7, 1024), (3, u64::MAX)],
            hold: true,
            status: b"/.gpun/steps/s0".to_vec(),
            go: b"/.gpun/steps/g0".to_vec(),
            terminal: b"/dev/pts/0".to_vec(),
        }
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        assert_eq!(Task::decode(&sample().encode()), Ok(sample()));
    }

    #[test]
    fn a_cut_file_is_refused_or_shorter_and_never_a_panic() {
        let whole = sample().encode();
        for cut in 0..whole.len() {
            if let Ok(task) = Task::decode(&whole[..cut]) {
                assert_ne!(task, sample(), "cut at {cut}");
            }
        }
        assert_eq!(Task::decode(b""), Err(BadTask(0)));
        assert_eq!(Task::decode(b"gpun-task 1\nu\x01\0\0\0\x01"), Err(BadTask(12)));
        assert_eq!(Task::decode(b"gpun-task 1\nw\xff\xff\xff\xff/"), Err(BadTask(12)));
    }
}
