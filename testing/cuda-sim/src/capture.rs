//! Captures: commands that become a graph instead, and what nobody may do meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;

use cudarc::driver::sys::CUresult;

use crate::driver::{MODE, State, thread};
use crate::handle::{Handle, Outcome, find};
use crate::objects::{Capture, Command, GLOBAL, Graph, Latest, Node, RELAXED, Recording, Task};
use crate::report::{Rule, breach};

impl State {
    /// A call that is not safe while somebody captures: fails if somebody does whom it concerns, whose capture it
    /// spoils.
    pub fn unsafe_call(&mut self) -> Outcome {
        let (own, here) = (MODE.get(), thread());
        let mut spoilt = false;
        for capture in self.captures.values_mut() {
            let is_here = capture.thread == here && capture.mode != RELAXED;
            let concerns = is_here || own == GLOBAL && capture.mode == GLOBAL;
            if own != RELAXED && concerns {
                capture.invalid = true;
                spoilt = true;
            }
        }
        match spoilt {
            true => Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED),
            false => Ok(()),
        }
    }

    /// As [`unsafe_call`](Self::unsafe_call), for one that asks or waits for a stream: one that captures itself is
    /// never asked.
    pub fn ask_stream(&mut self, stream: Handle) -> Outcome {
        if let Some(capture) = self.stream(stream)?.capture {
            return self.spoil(capture, CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        }
        self.unsafe_call()
    }

    /// The recording of an event that is asked or waited for, if there was one.
    pub fn ask_event(&mut self, event: Handle) -> Outcome<Option<Arc<Recording>>> {
        let asked = match &find(&mut self.events, "event", event)?.latest {
            Latest::Never => None,
            Latest::Recorded(recording) => Some(recording.clone()),
            Latest::Captured(capture, _) => {
                let capture = *capture;
                return self.spoil(capture, CUresult::CUDA_ERROR_CAPTURED_EVENT);
            }
        };
        self.unsafe_call().map(|()| asked)
    }

    fn spoil<T>(&mut self, capture: Handle, why: CUresult) -> Outcome<T> {
        if let Some(capture) = self.captures.get_mut(&capture) {
            capture.invalid = true;
        }
        Err(why)
    }

    pub fn begin_capture(&mut self, stream: Handle, mode: u32) -> Outcome {
        if mode > RELAXED {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let handle = self.handle();
        let origin = self.stream(stream)?;
        if origin.capture.is_some() {
            return Err(CUresult::CUDA_ERROR_ILLEGAL_STATE);
        }
        origin.capture = Some(handle);
        let capture = Capture {
            mode,
            thread: thread(),
            origin: stream,
            nodes: Vec::new(),
            invalid: false,
            clocks: BTreeMap::from([(stream, BTreeMap::from([(stream, 0)]))]),
        };
        self.captures.insert(handle, capture);
        Ok(())
    }

    /// Ends the capture of `stream`, and gives its graph.
    pub fn end_capture(&mut self, stream: Handle) -> Outcome<Handle> {
        let handle = self.stream(stream)?.capture;
        let handle = handle.ok_or(CUresult::CUDA_ERROR_ILLEGAL_STATE)?;
        let capture = &self.captures[&handle];
        if capture.origin != stream {
            return self.spoil(handle, CUresult::CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
        }
        if capture.mode != RELAXED && capture.thread != thread() {
            return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
        }
        let Some(capture) = self.captures.remove(&handle) else {
            return Err(CUresult::CUDA_ERROR_ILLEGAL_STATE);
        };
        for stream in capture.clocks.keys() {
            if let Some(stream) = self.streams.get_mut(stream) {
                stream.capture = None;
            }
        }
        if capture.invalid {
            return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        }
        let known = &capture.clocks[&stream];
        let joined = |(stream, clock): (&Handle, &BTreeMap<Handle, u64>)| {
            known.get(stream).unwrap_or(&0) >= clock.get(stream).unwrap_or(&0)
        };
        if !capture.clocks.iter().all(joined) {
            return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
        }
        let graph = self.handle();
        self.graphs.insert(graph, Graph(capture.nodes));
        Ok(graph)
    }

    /// Whether `stream` captures: 0 no, 1 yes, 2 a capture that was spoilt.
    pub fn capture_status(&mut self, stream: Handle) -> Outcome<u32> {
        let capture = self.stream(stream)?.capture;
        let invalid = capture.map(|capture| self.captures[&capture].invalid);
        Ok(invalid.map_or(0, |invalid| 1 + u32::from(invalid)))
    }

    /// Has `stream` do `task`, or its capture take it up.
    pub fn append(&mut self, stream: Handle, task: Task) -> Outcome {
        let Some(capture) = self.stream(stream)?.capture else {
            let command = Command::Work(self.work(&task)?);
            self.stream(stream)?.append(command);
            return Ok(());
        };
        let handle = self.handle();
        let clock = self.clock(capture, stream)?;
        *clock.entry(stream).or_default() += 1;
        if let Some(capture) = self.captures.get_mut(&capture) {
            // As long as they come back, streams that join run in the order they were captured.
            let after = capture.nodes.last().map(|node| node.handle);
            capture.nodes.push(Node {
                handle,
                after: after.into_iter().collect(),
                task,
            });
        }
        Ok(())
    }

    /// What comes before the next command of `stream` in a capture that is still good.
    fn clock(&mut self, capture: Handle, stream: Handle) -> Outcome<&mut BTreeMap<Handle, u64>> {
        let capture = self.captures.get_mut(&capture);
        let good = capture.filter(|capture| !capture.invalid);
        let good = good.ok_or(CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)?;
        Ok(good.clocks.entry(stream).or_default())
    }

    pub fn record(&mut self, event: Handle, stream: Handle) -> Outcome {
        let latest = match self.stream(stream)?.capture {
            Some(capture) => Latest::Captured(capture, self.clock(capture, stream)?.clone()),
            None => {
                let recording = Arc::new(Recording::default());
                find(&mut self.events, "event", event)?;
                self.stream(stream)?
                    .append(Command::Record(recording.clone()));
                Latest::Recorded(recording)
            }
        };
        find(&mut self.events, "event", event)?.latest = latest;
        Ok(())
    }

    /// Makes what follows on `stream` wait for what `event` stands for now.
    pub fn wait_event(&mut self, stream: Handle, event: Handle) -> Outcome {
        let capturing = self.stream(stream)?.capture;
        let latest = match &find(&mut self.events, "event", event)?.latest {
            Latest::Captured(capture, clock) => Err((*capture, clock.clone())),
            Latest::Recorded(recording) => Ok(Some(recording.clone())),
            Latest::Never => Ok(None),
        };
        match (latest, capturing) {
            (Ok(None), _) => Ok(()),
            (Ok(Some(recording)), None) => {
                self.stream(stream)?.append(Command::Wait(recording));
                Ok(())
            }
            (Ok(Some(_)), Some(capture)) => {
                self.spoil(capture, CUresult::CUDA_ERROR_STREAM_CAPTURE_ISOLATION)
            }
            (Err((other, _)), Some(capture)) if other != capture => {
                let merge = CUresult::CUDA_ERROR_STREAM_CAPTURE_MERGE;
                let _ = self.spoil::<()>(other, merge);
                self.spoil(capture, merge)
            }
            (Err((capture, before)), _) => {
                let clock = self.clock(capture, stream)?;
                for (stream, count) in before {
                    let known = clock.entry(stream).or_default();
                    *known = count.max(*known);
                }
                self.stream(stream)?.capture = Some(capture);
                Ok(())
            }
        }
    }

    /// Fails if `stream` captures: for what cannot become a node.
    pub fn not_captured(&mut self, stream: Handle) -> Outcome {
        match self.stream(stream)?.capture {
            Some(capture) => self.spoil(capture, CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED),
            None => Ok(()),
        }
    }

    pub fn destroy_stream(&mut self, handle: Handle) -> Outcome {
        let stream = self.stream(handle)?;
        if stream.capture.is_some() {
            breach(
                Rule::Capture,
                &format!("stream {handle:#x} is destroyed, and captures"),
            );
        }
        stream.destroyed = true;
        if stream.is_idle() {
            self.streams.remove(&handle);
        }
        Ok(())
    }
}
