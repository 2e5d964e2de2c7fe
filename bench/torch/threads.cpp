// PyTorch from C++ threads, a stream of its pool for each: forward passes per second with a synchronise after each,
// or allocations; or the nanoseconds that one call of an operator on tiny tensors takes its thread, which does not wait
// for it. Prints one number.
//
//   threads linear|mlp|alloc_free|eager_add|eager_linear|eager_layer_norm THREADS SECONDS

#include <ATen/core/Tensor.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/layer_norm.h>
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

// Nanoseconds of one call of as many as do not wait for one another, nor for the GPU, as the last of more than the driver
// queues would.
static double eager_once(const Work& work) {
    constexpr int calls = 500;
    c10::cuda::device_synchronize();
    auto begun = Clock::now();
    for (int call = 0; call < calls; call++) {
        work();
    }
    auto took = Clock::now() - begun;
    c10::cuda::device_synchronize();
    return std::chrono::duration<double, std::nano>(took).count() / calls;
}

// The middle one of so many rounds.
static double middle(int count, const std::function<double()>& round) {
    std::vector<double> rounds;
    for (int number = 0; number < count; number++) {
        rounds.push_back(round());
    }
    std::sort(rounds.begin(), rounds.end());
    return rounds[count / 2];
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
        std::fprintf(stderr, "usage: threads FIGURE THREADS SECONDS\n");
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
    Tensor a = random_tensor({1024}), b = random_tensor({1024});
    Tensor scale = random_tensor({256}), shift = random_tensor({256});
    c10::cuda::device_synchronize();

    int batch = 1;
    Work work;
    if (name == "linear" || name == "eager_linear") {
        work = [&] { return linear(batch_of_four); };
    } else if (name == "mlp") {
        work = [&] { return third(at::relu(second(at::relu(first(one_row))))); };
    } else if (name == "eager_add") {
        work = [&] { return at::add(a, b); };
    } else if (name == "eager_layer_norm") {
        work = [&] { return at::layer_norm(batch_of_four, {256}, scale, shift); };
    } else if (name == "alloc_free") {
        batch = 256;
        work = [&] { return at::empty({16384}, at::TensorOptions().device(at::kCUDA).dtype(at::kFloat)); };
    } else {
        std::fprintf(stderr, "there is no figure %s\n", arguments[1]);
        return 2;
    }
    const bool eager = name.starts_with("eager_");
    // The first of the rounds without waiting warms up; it is never the middle one.
    const double value = eager ? middle(41, [&] { return eager_once(work); })
                               : middle(3, [&] { return rate_once(threads, seconds, batch, work); });
    std::printf("%.1f\n", value);
    std::fflush(stdout);
    // What PyTorch takes down at the end is not measured.
    std::_Exit(0);
}
