/*
 * Compares glTF models that tinygltf loads from a package with those that it loads from files.
 *
 *     ./test write FOLDER        writes small models: binary, with external files, and with `..`
 *     ./test FOLDER PACKAGE      compares all models of FOLDER with those of PACKAGE
 */
#include <tiny_gltf.h>

#include "millstream_tinygltf.hpp"

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

namespace fs = std::filesystem;
namespace ms = millstream;

#define CHECK(condition)                                                                          \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            std::fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);    \
            std::exit(1);                                                                         \
        }                                                                                         \
    } while (0)

static tinygltf::Model made() {
    tinygltf::Model model;
    model.asset.version = "2.0";
    tinygltf::Buffer buffer;
    for (int i = 0; i < 300000; i++)
        buffer.data.push_back(static_cast<unsigned char>(i >> 7 ^ i));
    model.buffers.push_back(buffer);
    tinygltf::Image image;
    image.name = "hull";
    image.mimeType = "image/png";
    image.width = image.height = 64;
    image.component = 4;
    image.bits = 8;
    image.pixel_type = TINYGLTF_COMPONENT_TYPE_UNSIGNED_BYTE;
    for (int i = 0; i < 64 * 64 * 4; i++)
        image.image.push_back(static_cast<unsigned char>(i * 7));
    model.images.push_back(image);
    return model;
}

static void write_models(const fs::path &folder) {
    tinygltf::TinyGLTF writer;
    auto model = made();
    fs::create_directories(folder / "ships");
    fs::create_directories(folder / "shared");
    const auto binary = folder / "ship.glb";
    CHECK(writer.WriteGltfSceneToFile(&model, binary.string(), true, true, false, true));
    model = made();
    model.images.clear();
    const auto external = folder / "ships" / "ship.gltf";
    CHECK(writer.WriteGltfSceneToFile(&model, external.string(), false, false, true, false));
    CHECK(fs::exists(folder / "ships" / "ship.bin"));
    std::ofstream(folder / "ships" / "hull.ppm") << "P6 40 30 255\n" << std::string(3600, 'x');
    std::ofstream(folder / "shared" / "two points.bin") << "0123456789abcdefghijklmn";
    std::ofstream(folder / "ships" / "points.gltf")
        << R"({"asset":{"version":"2.0"},"buffers":[{"byteLength":24,)"
        << R"("uri":"./../shared/two%20points.bin"}],"images":[{"uri":"hull.ppm"}]})";
    std::ofstream(folder / "ships" / "broken.gltf")
        << R"({"asset":{"version":"2.0"},"buffers":[{"byteLength":24,"uri":"none.bin"}]})";
    std::ofstream(folder / "outside.gltf")
        << R"({"asset":{"version":"2.0"},"buffers":[{"byteLength":24,"uri":"../out.bin"}]})";
    std::ofstream(folder / "empty.glb");
}

struct loaded {
    bool good;
    tinygltf::Model model;
    std::string error, warning;
};

static loaded load(const std::string &name, const tinygltf::FsCallbacks *callbacks) {
    tinygltf::TinyGLTF loader;
    loaded to;
    if (callbacks)
        loader.SetFsCallbacks(*callbacks);
    to.good = fs::path(name).extension() == ".glb"
                  ? loader.LoadBinaryFromFile(&to.model, &to.error, &to.warning, name)
                  : loader.LoadASCIIFromFile(&to.model, &to.error, &to.warning, name);
    return to;
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    if (std::strcmp(argv[1], "write") == 0) {
        write_models(argv[2]);
        return 0;
    }
    auto storage = ms::storage::create().value();
    auto queue = ms::queue::create(storage).value();
    auto package = ms::source::package(storage, argv[2]).value();
    ms::tinygltf_files files(queue, package);
    auto callbacks = files.callbacks();
    int equal = 0, refused = 0;
    std::size_t buffers = 0, images = 0, bytes = 0;
    for (const auto &item : fs::recursive_directory_iterator(argv[1])) {
        const auto extension = item.path().extension();
        if (!item.is_regular_file() || (extension != ".glb" && extension != ".gltf"))
            continue;
        const auto name = fs::relative(item.path(), argv[1]).generic_string();
        const auto loose = load(item.path().string(), nullptr), packed = load(name, &callbacks);
        if (!loose.good) {
            CHECK(!packed.good && !packed.error.empty());
            refused++;
            continue;
        }
        if (!packed.good)
            std::fprintf(stderr, "%s: %s\n", name.c_str(), packed.error.c_str());
        CHECK(packed.good && packed.warning.empty() == loose.warning.empty());
        const auto &left = loose.model, &right = packed.model;
        CHECK(left == right && left.images.size() == right.images.size());
        for (std::size_t i = 0; i < left.buffers.size(); i++, buffers++) {
            CHECK(left.buffers[i].data == right.buffers[i].data);
            bytes += left.buffers[i].data.size();
        }
        for (std::size_t i = 0; i < left.images.size(); i++, images++) {
            CHECK(left.images[i].image == right.images[i].image);
            bytes += left.images[i].image.size();
        }
        equal++;
    }
    CHECK(equal > 0 && bytes > 0);

    CHECK(!load("missing.gltf", &callbacks).good && !load("missing.glb", &callbacks).good);
    std::string error;
    std::vector<unsigned char> content(4);
    CHECK(!callbacks.WriteWholeFile(&error, "new.bin", content, callbacks.user_data));
    CHECK(!error.empty() && !callbacks.ReadWholeFile(&content, nullptr, "..", callbacks.user_data));
    for (const char *name : {"", ".", "..", "/", "../..", "a/../..", "//", "none/"})
        CHECK(!callbacks.FileExists(name, callbacks.user_data));
    /* In a callback of the library reads fail, and harm nothing. */
    auto fence = ms::fence::create().value();
    mst_read_desc first = {};
    first.source = package.get();
    CHECK(mst_source_find(package.get(), "ship.glb", &first.entry) == MST_OK);
    first.options.after = fence.get();
    first.options.after_value = 1;
    auto held = queue.read(first).value();
    static std::atomic<int> refusals{0};
    const auto refused_there = [](void *callbacks) {
        refusals = load("ship.glb", static_cast<tinygltf::FsCallbacks *>(callbacks)).good ? 2 : 1;
    };
    CHECK(mst_ticket_notify(storage.get(), held.get(), refused_there, &callbacks) == MST_OK);
    CHECK(fence.signal(1));
    while (!refusals)
        std::this_thread::yield();
    CHECK(refusals == 1 && held.wait() && queue.wait_idle());
    std::printf("tinygltf: %d models equal (%zu buffers, %zu images, %zu bytes), "
                "%d refused by both\n",
                equal, buffers, images, bytes, refused);
    return 0;
}
