// PyTorch from C++ threads, a stream of its pool for each: forward passes per second with a synchronise after each,
// or allocations. Prints one number.
//
//   threads linear|mlp|alloc_free THREADS SECONDS

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>
#include <c10/core/InferenceMode.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

using at::Tensor;
using Work = std::function<Tensor()>;
using Clock = std::chrono::steady_clock;

// How often `threads` threads together do `work` in a second, synchronising after each `batch`.
static double rate_once(int threads, double seconds, int batch, const Work& work) {
    std::vector<long> counts(threads * 16);  // One cache line and more for each.
    std::atomic<bool> stop{false};
    std::atomic<int> ready{0};
    std::mutex first;
    std::vector<std::thread> running;
    for (int number = 0; number < threads; number++) {
        running.emplace_back([&, number] {
            c10::InferenceMode inference;
            auto stream = c10::cuda::getStreamFromPool();
            c10::cuda::CUDAStreamGuard on(stream);
            Tensor result;
            {
                // The first call makes what PyTorch keeps for each thread; several at once have crashed in it.
                std::lock_guard<std::mutex> one_by_one(first);
                result = work();
                stream.synchronize();
            }
            ready++;
            while (ready < threads) {
            }
            long count = 0;
            while (!stop) {
                for (int i = 0; i < batch; i++) {
                    result = work();
                }
                stream.synchronize();
                count += batch;
            }
            counts[number * 16] = count;
        });
    }
    while (ready < threads) {
    }
    auto begun = Clock::now();
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    stop = true;
    for (auto& thread : running) {
        thread.join();
    }
    long total = 0;
    for (int number = 0; number < threads; number++) {
        total += counts[number * 16];
    }
    return total / std::chrono::duration<double>(Clock::now() - begun).count();
}

// The middle one of three rounds.
static double rate(int threads, double seconds, int batch, const Work& work) {
    std::vector<double> rounds;
    for (int round = 0; round < 3; round++) {
        rounds.push_back(rate_once(threads, seconds, batch, work));
    }
    std::sort(rounds.begin(), rounds.end());
    return rounds[1];
}

static Tensor random_tensor(std::vector<int64_t> shape) {
    return at::randn(shape, at::TensorOptions().device(at::kCUDA).dtype(at::kFloat));
}

// The weights of a layer from `inputs` to `outputs`, and its bias.
struct Layer {
    Tensor weights, bias;

    Layer(int64_t inputs, int64_t outputs)
        : weights(random_tensor({outputs, inputs})), bias(random_tensor({outputs})) {}

    Tensor operator()(const Tensor& x) const { return at::linear(x, weights, bias); }
};

int main(int count, char** arguments) {
    if (count != 4) {
        std::fprintf(stderr, "usage: threads linear|mlp|alloc_free THREADS SECONDS\n");
        return 2;
    }
    const std::string name = arguments[1];
    const int threads = std::atoi(arguments[2]);
    const double seconds = std::atof(arguments[3]);
    c10::InferenceMode inference;

    Layer linear(256, 128);
    Tensor batch_of_four = random_tensor({4, 256});
    Layer first(512, 1024), second(1024, 1024), third(1024, 256);
    Tensor one_row = random_tensor({1, 512});
    c10::cuda::device_synchronize();

    int batch = 1;
    Work work;
    if (name == "linear") {
        work = [&] { return linear(batch_of_four); };
    } else if (name == "mlp") {
        work = [&] { return third(at::relu(second(at::relu(first(one_row))))); };
    } else {
        batch = 256;
        work = [&] { return at::empty({16384}, at::TensorOptions().device(at::kCUDA).dtype(at::kFloat)); };
    }
    std::printf("%.1f\n", rate(threads, seconds, batch, work));
    std::fflush(stdout);
    // What PyTorch takes down at the end is not measured.
    std::_Exit(0);
}
